# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of network that role deploy makes, and what each can do. One table. Pure.

Sources: the operators' custom resource definitions (which fields there are); Mellanox/network-operator pkg/state/state_hostdevice_network.go
(a HostDeviceNetwork's resource always has the prefix nvidia.com); the device plugins' resource managers (form of names).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NetworkType:
    """One value of deploy_network_type.

    link_layers: the first is the default. plugin: the component that serves the resource, "" where the SR-IOV operator does.
    secondary: whether pods get a network of their own. exclusive: whether a pod gets a device for itself.
    master: whether the network needs one interface of the host. mtu: lowest and highest MTU that can be set; () for none.
    suggested: a resource name for the words of errors. selectors: keys of a rail that choose adapters.
    """

    link_layers: tuple[str, ...]
    plugin: str
    secondary: bool
    exclusive: bool
    master: bool
    mtu: tuple[int, ...]
    suggested: str
    selectors: tuple[str, ...]


_SHARED = ("interfaces", "vendors", "device_ids")
_DEVICES = ("interfaces", "pci_addresses", "vendors", "device_ids")
ETHERNET_MTU = (1280, 9216)
# 65520 is what IPoIB carries in connected mode
INFINIBAND_MTU = (1280, 65520)

TYPES = {
    "macvlan": NetworkType(
        link_layers=("ethernet",),
        plugin="rdma_shared_device_plugin",
        secondary=True,
        exclusive=False,
        master=True,
        mtu=ETHERNET_MTU,
        suggested="rdma/rdma_shared_device_a",
        selectors=_SHARED,
    ),
    "ipoib": NetworkType(
        link_layers=("infiniband",),
        plugin="rdma_shared_device_plugin",
        secondary=True,
        exclusive=False,
        master=True,
        mtu=(),
        suggested="rdma/rdma_shared_device_a",
        selectors=_SHARED,
    ),
    "host_device": NetworkType(
        link_layers=("ethernet", "infiniband"),
        plugin="sriov_device_plugin",
        secondary=True,
        exclusive=True,
        master=False,
        mtu=(),
        suggested="nvidia.com/hostdev",
        selectors=_DEVICES,
    ),
    "sriov": NetworkType(
        link_layers=("ethernet", "infiniband"),
        plugin="",
        secondary=True,
        exclusive=True,
        master=False,
        mtu=ETHERNET_MTU,
        suggested="nvidia.com/sriov_resource",
        selectors=_DEVICES,
    ),
    "ib_shared": NetworkType(
        link_layers=("infiniband",),
        plugin="rdma_shared_device_plugin",
        secondary=False,
        exclusive=False,
        master=False,
        mtu=(),
        suggested="rdma/rdma_shared_device_a",
        selectors=_SHARED,
    ),
}
