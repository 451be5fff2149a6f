"""What to do about a node fact."""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """The action for a fact: nothing else is ever recommended."""

    NONE = "none"
    RESTART_APP = "restart-app"
    RESET_DEVICE = "reset-device"
    REBOOT = "reboot"
    DRAIN = "drain"
    REPLACE = "replace"
    CHECK_CABLING = "check-cabling"
    CONTACT_SUPPORT = "contact-support"


ACTIONS: dict[Action, str] = {
    Action.NONE: "nothing to do on the node",
    Action.RESTART_APP: "restart the job",
    Action.RESET_DEVICE: "reset the device while nothing runs on it",
    Action.REBOOT: "drain the node and reboot it",
    Action.DRAIN: "drain the node and look at it",
    Action.REPLACE: "drain the node and have the part replaced",
    Action.CHECK_CABLING: "check the cable, the module and the port",
    Action.CONTACT_SUPPORT: "drain the node and contact the vendor's support",
}
"""Each action in words."""
