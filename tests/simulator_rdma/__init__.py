"""The simulated cluster with real RDMA: what is run in a pod runs in a guest, one for each node. See docs/rdma_vm.md."""
