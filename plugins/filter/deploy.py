# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of role deploy.

Each calls one function of plugin_utils; their documentation lies beside this file, one <filter>.yml each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.k8si.fabric.plugins.plugin_utils import (
    deploy_plan,
    deploy_progress,
    deploy_result,
    deploy_settings,
    filter_errors,
)

FILTERS: dict[str, Callable[..., Any]] = {
    "deploy_explain": deploy_result.explain,
    "deploy_ours": deploy_plan.ours,
    "deploy_phases": deploy_progress.phases,
    "deploy_plan": deploy_plan.plan,
    "deploy_progress": deploy_progress.progress,
    "deploy_reads": deploy_plan.reads,
    "deploy_result": deploy_result.conclude,
    "deploy_settings": deploy_settings.make_settings,
}


class FilterModule:
    """Entry point of Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return filter_errors.named(FILTERS, AnsibleFilterError)
