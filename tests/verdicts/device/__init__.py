"""The verdict benchmark where the host runs ahead: ranks train on the simulated device."""
