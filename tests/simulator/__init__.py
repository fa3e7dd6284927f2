"""A simulated Kubernetes cluster with a model of an RDMA fabric, for tests and demonstrations."""
