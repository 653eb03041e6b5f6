// ThreadSeal seals the sessions of OpenCode: this plugin reports each turn and each tool to its hook.
// `threadseal install` writes this file, and `threadseal uninstall` removes it.
import { spawn, spawnSync } from "node:child_process"
import { existsSync, readdirSync } from "node:fs"
import { homedir } from "node:os"
import { isAbsolute, join } from "node:path"

const command = ["threadseal"]
const limitMs = 20000

// The database of this build: `opencode.db`, or with the name of a channel.
function database() {
  const data = process.env.XDG_DATA_HOME || join(homedir(), ".local", "share")
  const folder = join(data, "opencode")
  const named = process.env.OPENCODE_DB
  if (named) return isAbsolute(named) ? named : join(folder, named)
  const stable = join(folder, "opencode.db")
  if (existsSync(stable)) return stable
  try {
    const other = readdirSync(folder).find((name) => /^opencode-.*\.db$/.test(name))
    if (other) return join(folder, other)
  } catch {}
  return stable
}

// A hook that fails must not fail the agent: each error ends here.
function report(payload) {
  return new Promise((done) => {
    try {
      const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "ignore", "ignore"], timeout: limitMs })
      child.on("error", () => done())
      child.on("close", () => done())
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(payload))
    } catch {
      done()
    }
  })
}

export const ThreadSeal = async ({ directory }) => {
  const sessions = new Set()
  const payload = (session, event, more) => ({
    session_id: session,
    hook_event_name: event,
    cwd: directory,
    database: database(),
    ...more,
  })
  return {
    event: async ({ event }) => {
      const session = event.properties?.sessionID ?? event.properties?.info?.sessionID
      if (!session) return
      sessions.add(session)
      if (["session.idle", "session.compacted", "session.error"].includes(event.type)) {
        await report(payload(session, event.type))
      }
    },
    "tool.execute.after": async (input) => {
      sessions.add(input.sessionID)
      await report(payload(input.sessionID, "tool.execute.after", { tool_name: input.tool, tool_use_id: input.callID }))
    },
    // The process ends next, so it waits here.
    dispose: async () => {
      for (const session of sessions) {
        try {
          spawnSync(command[0], command.slice(1), {
            input: JSON.stringify(payload(session, "dispose")),
            stdio: ["pipe", "ignore", "ignore"],
            timeout: limitMs,
          })
        } catch {}
      }
    },
  }
}
