"""Field names and types of Kubernetes objects; see make.py."""
