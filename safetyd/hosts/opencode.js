// Written by `safetyd protect opencode`, removed by `safetyd unprotect opencode`.
// The plugin asks safetyd before each tool call, as safetyd/hook.py does for other hosts. It refuses
// the call unless the daemon itself has allowed exactly this call.
const SOCKET = "@SOCKET@"
const AGENT = "@AGENT@"
const TOKEN_FILE = "@TOKEN_FILE@"
const GUARD = "@GUARD@" // the permission that denies every tool while this plugin is not loaded
const [FIRST_MS, SILENCE_MS, PATIENCE_MS, MAX_BYTES] = [5_000, 15_000, 600_000, 1 << 20]

async function send(kind, event, nonce) {
  const headers = { "Safetyd-Agent": AGENT, "Safetyd-Nonce": nonce, Connection: "close" }
  headers["Safetyd-Patience"] = String(PATIENCE_MS / 1000)
  for (const name of ["HOME", "XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR"]) {
    const folder = process.env[name] ?? ""
    if (/^[ -~]+$/.test(folder)) headers[`Safetyd-${name.replaceAll("_", "-")}`] = folder
  }
  if (TOKEN_FILE) headers.Authorization = `Bearer ${(await Bun.file(TOKEN_FILE).text()).trim()}`
  const request = { unix: SOCKET, method: "POST", redirect: "manual", headers, body: JSON.stringify(event) }
  return fetch(`http://localhost/hooks/v1/opencode/${kind}`, request)
}

async function within(ms, promise) {
  let timer
  const late = new Promise((_, fail) => (timer = setTimeout(fail, ms, new Error("no answer came in time"))))
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

// Return the text of a refusal, or an empty string if the call may run.
async function refusal(event) {
  const nonce = crypto.randomUUID().replaceAll("-", "").slice(0, 16)
  const until = Date.now() + PATIENCE_MS
  const response = await within(FIRST_MS, send("before", event, nonce))
  if (response.status !== 200) throw new Error(`the daemon answered ${response.status}`)
  const reader = response.body.getReader()
  let [data, wait] = [Buffer.alloc(0), FIRST_MS]
  const receive = async () => {
    const { value, done } = await within(Math.min(wait, until - Date.now()), reader.read())
    if (done || data.length > MAX_BYTES) throw new Error(done ? "the answer is cut off" : "the answer is too long")
    data = Buffer.concat([data, value])
  }
  try {
    for (;;) {
      while (!data.includes(10)) await receive()
      const line = data.subarray(0, data.indexOf(10)).toString("latin1")
      data = data.subarray(data.indexOf(10) + 1)
      if (line === `safetyd/1 ${nonce} alive`) {
        wait = SILENCE_MS
        continue
      }
      const last = /^safetyd\/1 ([0-9a-f]{16}) (\d+) (\d+) (\d+)$/.exec(line)
      if (last?.[1] !== nonce) throw new Error("the answer does not come from safetyd")
      const [code, stdout, stderr] = last.slice(2).map(Number)
      while (data.length < stdout + stderr) await receive()
      if (code === 0) return ""
      return data.subarray(stdout, stdout + stderr).toString() || "safetyd: not allowed"
    }
  } finally {
    reader.cancel().catch(() => {})
  }
}

export const Safetyd = async ({ directory }) => {
  const report = (kind, event) => send(kind, event, "report").catch(() => {})
  const subagents = new Set() // sessions that another session started
  const call = ({ sessionID, tool, callID }, args) => ({
    session_id: sessionID, cwd: directory, tool_name: tool, tool_use_id: callID, tool_input: args,
    agent_id: subagents.has(sessionID) ? sessionID : "",
  })
  return {
    config: async (config) => {
      if (config.permission?.[GUARD] === "deny") delete config.permission[GUARD]
    },
    "tool.execute.before": async (input, output) => {
      const off = ["SAFETYD_ENABLED", "AI_COMPANY_ENABLED"].find((name) =>
        ["false", "0", "no", "off"].includes((process.env[name] ?? "").trim().toLowerCase()))
      if (off) throw new Error(`safetyd: agents are switched off by ${off}, so this call is blocked.`)
      const why = (problem) => (problem?.code ? `the daemon does not answer (${problem.code})` : problem?.message)
      const no = await refusal(call(input, output.args ?? {})).catch(
        (problem) => `safetyd: ${why(problem) ?? problem}, so this call is blocked.`)
      if (no) throw new Error(no)
    },
    "tool.execute.after": async (input, output) => {
      const code = output?.metadata?.exit
      const error = Number.isInteger(code) && code !== 0 ? `exit code ${code}` : ""
      report("after", { ...call(input, input.args ?? {}), error })
    },
    event: async ({ event }) => {
      const kind = { "session.created": "start", "session.deleted": "end" }[event.type]
      const { id, parentID } = event.properties?.info ?? {}
      if (kind && parentID) subagents.add(id)
      else if (kind) report(kind, { session_id: id, cwd: directory })
    },
  }
}
