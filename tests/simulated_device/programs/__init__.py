"""Programs that tests start: the device is registered for a whole process, never in pytest's."""
