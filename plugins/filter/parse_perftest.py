# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter k8si.fabric.parse_perftest; the work is done in plugin_utils/perftest.py."""

from __future__ import annotations

DOCUMENTATION = r"""
name: parse_perftest
short_description: Read the output of ib_write_bw and the other perftest tools
version_added: 0.1.0
author:
  - k8si.fabric contributors (@k8si)
description:
  - Turns what a perftest tool printed into data. It reads C(ib_write_bw), C(ib_read_bw), C(ib_send_bw), C(ib_atomic_bw),
    their C(_lat) counterparts and C(raw_ethernet_*), of every version from 5.x on, and the forks of vendors.
  - The header of a table says what its columns are. In a bandwidth row the average must equal message size times message
    rate, which proves the unit; a row that does not obey is listed in RV(_value.rejected) with a reason and is never corrected.
  - Text of other programs in between, warnings glued to rows, prompts, log prefixes, terminal escapes, cut off last lines and
    several runs in one text are coped with.
  - A text without any result is no error; RV(_value.completeness) is then V(none).
positional: _input, stderr, rc
options:
  _input:
    description: What the tool wrote to its standard output, or both streams in one text.
    type: str
    required: true
  stderr:
    description: What the tool wrote to its standard error.
    type: str
    default: ""
  rc:
    description: Exit status of the tool. Without it, nothing is concluded from it.
    type: int
  command:
    description:
      - The command line, as a list or as text, if it is known.
      - It settles the role, and the meaning of the bare figure that perftest's option C(--output) prints.
    type: raw
  out_json:
    description: Content of the file that perftest's option C(--out_json) wrote; it is held against the table.
    type: str
    default: ""
seealso:
  - plugin: k8si.fabric.diagnose_perftest
    plugin_type: filter
notes:
  - Gb/s is 10^9 bit/s. What perftest calls C(MiB/sec), and up to 6.21 C(MB/sec), is 2^20 byte/s.
"""

EXAMPLES = r"""
- name: Read a saved log
  ansible.builtin.set_fact:
    result: "{{ lookup('ansible.builtin.file', 'ib_write_bw.log') | k8si.fabric.parse_perftest }}"

- name: Show the best average of all message sizes
  ansible.builtin.debug:
    msg: "{{ result.rows | map(attribute='bandwidth_average_gbps') | max }} Gb/s"
  when: result.completeness == 'complete'

- name: Read what a command has just printed
  ansible.builtin.debug:
    msg: "{{ run.stdout | k8si.fabric.parse_perftest(run.stderr, run.rc) }}"
"""

RETURN = r"""
_value:
  description: What the text holds.
  type: dict
  contains:
    tool:
      description: Name of the program, for example V(ib_write_bw); null if the text does not tell.
      type: str
    version:
      description: Version, where the text is that of C(--version); perftest does not print it otherwise.
      type: str
    role:
      description: V(client), V(server), V(both) for a text with runs of both; null if the text does not tell.
      type: str
    parameters:
      description:
        - Parameters of the test from the banner, of the first run. Only what was printed is there.
        - Texts are C(test) (title), C(device), C(transport), C(connection), C(link_type), C(data_exchange) and C(cqe_poll_batch).
        - Numbers are C(qps), C(tx_depth), C(rx_depth), C(post_list), C(recv_post_list), C(cq_moderation), C(mtu_bytes),
          C(gid_index), C(max_inline_bytes), C(outstanding_reads), C(numa_node) and C(cpu_mhz).
        - Booleans (or V(unsupported)) are C(bidirectional), C(dual_port), C(srq), C(rdma_cm), C(pcie_relaxed_order), C(lock_free),
          C(ibv_wr_api), C(ddp), C(enhanced_reorder), C(rocm) and C(musa).
      type: dict
    addresses:
      description: Addresses of the queue pairs as both ends exchanged them, of the first run.
      type: dict
      contains:
        local:
          description: Addresses of the end that printed the text, one for each queue pair.
          type: list
          elements: dict
          contains: &address
            lid:
              description: Local identifier (InfiniBand), 0 on Ethernet.
              type: int
            qpn:
              description: Queue pair number.
              type: int
            psn:
              description: First packet sequence number.
              type: int
            rkey:
              description: Remote key; null for tests that have none and with rdma_cm.
              type: int
            vaddr:
              description: Virtual address of the buffer; null like C(rkey).
              type: int
            gid:
              description: GID in canonical IPv6 text, for example V(::ffff:10.9.0.1); null where none is printed.
              type: str
            outstanding_reads:
              description: Outstanding reads, in read and atomic tests only.
              type: int
        remote:
          description: Addresses of the other end.
          type: list
          elements: dict
          contains: *address
    rows:
      description: Rows of the tables, in their order. A bandwidth row has the keys with C(bandwidth), a latency row those with C(latency).
      type: list
      elements: dict
      contains:
        bytes:
          description: Message size in bytes.
          type: int
        iterations:
          description: Messages counted, over all queue pairs.
          type: int
        bandwidth_peak_gbps:
          description: Peak in Gb/s; null where it was not measured (perftest prints 0.00).
          type: float
        bandwidth_average_gbps:
          description: Average in Gb/s; in a bidirectional test the sum of both directions.
          type: float
        bandwidth_min_gbps:
          description: Minimum in Gb/s, where the tool has that column.
          type: float
        message_rate_mpps:
          description: Message rate in 10^6 messages a second.
          type: float
        ports:
          description: Figures of each port with C(--report-per-port), as C(port), C(bandwidth_average_gbps) and C(message_rate_mpps).
          type: list
          elements: dict
        unit_proven:
          description: Whether message size times message rate fits the unit of the header and no other one.
          type: bool
        latency_min_us:
          description: Shortest latency in microseconds; null where the tool printed no number.
          type: float
        latency_max_us:
          description: Longest latency in microseconds, or null.
          type: float
        latency_typical_us:
          description: Median latency in microseconds, or null.
          type: float
        latency_average_us:
          description: Mean latency in microseconds, or null.
          type: float
        latency_stdev_us:
          description: Standard deviation in microseconds, or null (perftest prints C(-nan) when it overflows).
          type: float
        latency_p99_us:
          description: 99th percentile in microseconds, or null.
          type: float
        latency_p999_us:
          description: 99.9th percentile in microseconds, or null.
          type: float
        transactions_per_second:
          description: Transactions a second, in latency tests of a given duration.
          type: float
        cpu_util_percent:
          description: CPU utilisation in per cent, with C(--cpu_util).
          type: float
        service_level:
          description: Service level, in quality-of-service tables of raw Ethernet.
          type: int
        other:
          description: Figures of columns that this filter does not know, by the name in the header.
          type: dict
        printed:
          description: What was printed, before conversion, as C(unit) and for bandwidth C(peak) and C(average).
          type: dict
        scope:
          description:
            - Whose figures the row holds.
            - V(own), measured by the end that printed it.
            - V(peer), a server that repeats its client's figures.
            - V(total), the sum of both directions.
            - V(local) and V(remote), the halves that C(--report-both) adds.
          type: str
        run:
          description: Number of the run in the text, from 1.
          type: int
        line:
          description: Number of the line in the text, from 1; null for rows from JSON.
          type: int
    figures:
      description: Bare figures as C(--output) prints them. They become a row only if O(command) tells their meaning.
      type: list
      elements: float
    completeness:
      description:
        - V(complete), the table is closed by its rule and no row was rejected.
        - V(partial), there are rows, but the table was cut off or a row was rejected.
        - V(none), there is no row.
      type: str
    completeness_reason:
      description: The same as a sentence.
      type: str
    memory:
      description: What this end's output says about its buffer. It proves nothing for the other end.
      type: dict
      contains:
        kind:
          description: V(host), V(cuda) or V(rocm); null if there is no output of a test.
          type: str
        device:
          description: Name of the GPU.
          type: str
        device_index:
          description: Index of the GPU.
          type: int
        method:
          description: V(dmabuf) or V(peermem), where it is proven; else null.
          type: str
        buffer_bytes:
          description: Size of the buffer in bytes.
          type: int
        memory_type:
          description: Type of the memory, V(CUDA_MEM_DEVICE) for device memory of the GPU.
          type: str
        address_in_buffer:
          description: Whether the address given to the other end lies in the GPU buffer; null where it cannot be told.
          type: bool
        proven:
          description: Whether the output proves that the buffer was in GPU memory and was used.
          type: bool
        evidence:
          description: The lines that say so.
          type: list
          elements: str
    json:
      description: JSON objects of perftest that were found, as C(valid), C(results) and C(agrees) (with the table; null if there is none).
      type: list
      elements: dict
    warnings:
      description: Warnings met; the run went on after them.
      type: list
      elements: str
    errors:
      description: Lines that are errors, those of O(stderr) first.
      type: list
      elements: str
    rejected:
      description: Lines that look like rows and were not believed.
      type: list
      elements: dict
      contains:
        line:
          description: The line.
          type: str
        number:
          description: Its number in the text, from 1.
          type: int
        code:
          description:
            - V(zero), nothing was transferred. V(unit), the average does not fit the unit. V(cut), the line is cut off or has text glued to a figure.
            - V(columns), figures and header do not match. V(range), an impossible figure. V(order), latency figures out of order.
            - V(header), the header is not usable. V(no_header), there is none. V(unit_unknown), a unit that perftest does not print.
            - V(not_a_number), an average that is not a number.
          type: str
        reason:
          description: The reason as a sentence.
          type: str
    runs:
      description: With several runs in one text, what is particular to each (C(tool), C(role), C(parameters), C(addresses),
        C(completeness), C(completeness_reason), C(memory)); else empty.
      type: list
      elements: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.k8si.fabric.plugins.plugin_utils.perftest import (
    PerftestParseError,
    parse_perftest,
)


def _parse_perftest(
    stdout: str,
    stderr: str = "",
    rc: int | None = None,
    command: list[str] | str | None = None,
    out_json: str = "",
) -> dict:
    try:
        return parse_perftest(stdout, stderr, rc, command=command, out_json=out_json)
    except PerftestParseError as exc:
        raise AnsibleFilterError(
            f"k8si.fabric.parse_perftest: {exc}. Give it what the tool printed, for example result.stdout"
        ) from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict:
        return {"parse_perftest": _parse_perftest}
