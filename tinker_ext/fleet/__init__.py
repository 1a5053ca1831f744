"""A fleet: processes that share one limit, one back-off, one budget and one view of themselves.

`ServiceClient(fleet=…)` or TINKER_EXT_FLEET names a folder (one machine) or a `redis://` URL.
Members with the same server and credential form a fleet; nothing here is loaded without it. A
`member` (one client) reports to the `store`, which takes each report as one step of the shared
`state`; `plan` decides who gets how much.
"""

from tinker_ext.fleet.member import Member
from tinker_ext.fleet.state import Fleet
from tinker_ext.fleet.store import open_store, without_password

__all__ = ["Fleet", "Member", "open_store", "without_password"]
