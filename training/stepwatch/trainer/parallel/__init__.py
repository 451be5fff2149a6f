"""One rank's share of the model under the mesh: process groups, sharding and pipeline."""
