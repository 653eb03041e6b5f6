# pyright: standard
"""A plugin of pytest: puts our modules in the places of the originals', whose own tests then run over them."""

import sys

import abstractruntime
import abstractruntime.storage.ledger_chain as original
from threadseal.compat import abstractruntime as ours
from threadseal.compat import agent_scroll

for module in ("agent_scroll", "agent_scroll.schema"):
    sys.modules[module] = agent_scroll
for name in ("HashChainedLedgerStore", "compute_record_hash", "verify_ledger_chain"):
    for module in (original, abstractruntime, abstractruntime.storage):
        if hasattr(module, name):
            setattr(module, name, getattr(ours, name))
