"""The interfaces of other programs over this library: change an import, and keep the rest.

| module | in the place of |
|---|---|
| `threadseal.compat.rye` | Rye's `transcript_signer` |
| `threadseal.compat.abstractruntime` | AbstractRuntime's `storage.ledger_chain` |
| `threadseal.compat.agent_scroll` | the package `agent_scroll` |

Files, hashes and answers are those of these programs; none of them has to be installed.
"""
