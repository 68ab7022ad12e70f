/** The messages of an agent, with the field names of docs/protocol.md, and the daemon's answers. */

import { flag, listOf, number, objectOf, oneOf, optional, or, text, time } from "./shape.js";
import type { Reader } from "./shape.js";

export type Verdict = "allow" | "require_confirmation" | "block";
export type Urgency = "low" | "normal" | "high";
export type Reversibility = "read_only" | "reversible" | "irreversible" | "unknown";
export type Risk = "low" | "medium" | "high" | "prohibited";

export interface Tokens {
  input?: number;
  output?: number;
}

export interface Target {
  label?: string;
  name?: string;
  role?: string;
  app?: string;
  window?: string;
  url?: string;
}

export interface Observation {
  window_title?: string;
  app_name?: string;
  url?: string;
  screen_hash?: string;
}

export interface Scores {
  strategic_alignment: number;
  autonomy_appropriateness: number;
  output_quality: number;
  resource_efficiency: number;
  learning_application: number;
}

/** An action that an agent wants to take. Only `type` is required. */
export interface Proposal {
  /** The type of action, such as read_file, run_shell or push. */
  type: string;
  /** Your id for this proposal. If you pass none, the client creates one. */
  id?: string;
  /** The exact text that will be executed, typed or sent. */
  text?: string;
  description?: string;
  rationale?: string;
  session?: string;
  episode?: string;
  project?: string;
  chain?: string;
  task?: string;
  urgency?: Urgency;
  /** True: if the action needs approval, wait for the operator's answer. See `waitFor`. */
  wait?: boolean;
  /** How many seconds an approval request stays open. */
  timeout_s?: number;
  reversibility?: Reversibility;
  risk?: Risk;
  confidence?: number;
  scores?: Scores;
  target?: Target;
  observation?: Observation;
  model?: string;
  provider?: string;
  cloud?: boolean;
  dependency?: string;
  cost_usd?: number;
  tokens?: Tokens;
  /** The files and folders that the action touches. */
  paths?: readonly string[];
  remote?: string;
  cwd?: string;
  context?: Readonly<Record<string, unknown>>;
  rollback?: string;
  request_id?: string;
  at?: Date | string;
  dry_run?: boolean;
  supersedes?: string;
}

/** A request for approval of an action that is proposed later. */
export interface PermissionAsk {
  action: string;
  id?: string;
  description?: string;
  rationale?: string;
  urgency?: Urgency;
  wait?: boolean;
  context?: Readonly<Record<string, unknown>>;
  session?: string;
  timeout_minutes?: number;
}

/** The outcome of an action. */
export interface Outcome {
  /** False only if the action could not be carried out. A failed test is a result. */
  ok: boolean;
  error?: string;
  latency_ms?: number;
  cost_usd?: number;
  tokens?: Tokens;
  model?: string;
  dependency?: string;
  task?: string;
  session?: string;
  files_changed?: number;
  action_type?: string;
  description?: string;
  details?: Readonly<Record<string, unknown>>;
  at?: Date | string;
}

/** Telemetry other than an outcome. */
export type Telemetry =
  | { type: "session_started"; session: string; provider?: string; model?: string }
  | { type: "session_ended"; session: string; scheduled_next?: string }
  | { type: "episode_ended"; episode: string }
  | { type: "iteration"; session?: string }
  | {
    type: "metrics";
    iterations_per_hour?: number;
    api_cost_last_hour?: number;
    files_changed_per_commit?: number;
    error_rate?: number;
  }
  | { type: "heartbeat"; stop_epoch?: number }
  | { type: "commit"; ref: string; files_changed?: number }
  | { type: "rollback"; ref: string; files_changed?: number }
  | { type: "unreported"; id: string };

type Names<T> = { readonly [K in keyof Required<T>]: true };

const PROPOSAL: Names<Proposal> = {
  type: true, id: true, text: true, description: true, rationale: true, session: true,
  episode: true, project: true, chain: true, task: true, urgency: true, wait: true,
  timeout_s: true, reversibility: true, risk: true, confidence: true, scores: true, target: true,
  observation: true, model: true, provider: true, cloud: true, dependency: true, cost_usd: true,
  tokens: true, paths: true, remote: true, cwd: true, context: true, rollback: true,
  request_id: true, at: true, dry_run: true, supersedes: true,
};
const ASK: Names<PermissionAsk> = {
  action: true, id: true, description: true, rationale: true, urgency: true, wait: true,
  context: true, session: true, timeout_minutes: true,
};
const OUTCOME: Names<Outcome> = {
  ok: true, error: true, latency_ms: true, cost_usd: true, tokens: true, model: true,
  dependency: true, task: true, session: true, files_changed: true, action_type: true,
  description: true, details: true, at: true,
};

/** The names of the fields that the client accepts, by message. */
export const FIELDS = {
  proposal: Object.keys(PROPOSAL),
  "permission request": Object.keys(ASK),
  outcome: Object.keys(OUTCOME),
} as const;

/** A guard's verdict. */
export interface Opinion {
  readonly guard: string;
  readonly decision: Verdict;
  readonly rule: string;
  readonly reason: string;
}

interface Answer {
  readonly id: string;
  readonly agent: string;
  /** The verdict. Act only if it is allow. */
  readonly decision: Verdict;
  /** pending: an operator has been asked for approval. */
  readonly status: "final" | "pending";
  /** The reason as a code, for programs. */
  readonly cause: string;
  readonly reason: string;
  readonly triggered_rules: readonly string[];
  readonly confidence: number;
  readonly verdicts: readonly Opinion[];
  readonly tier: string | null;
  readonly risk: string | null;
  readonly reversibility: string | null;
  /** The id of the approval request, if there is one. */
  readonly request_id: string | null;
  /** Seconds to wait before you propose again. */
  readonly retry_after_s: number | null;
  readonly limit_id: string | null;
  /** A message for the model that proposed the action. */
  readonly agent_message: string;
  readonly digest: string;
  /** True: claim the action before you start it. */
  readonly claim_required: boolean;
  readonly expires_at: string | null;
  /** When somebody who may answer the request can be notified, if nobody can be now. */
  readonly reachable_from: string | null;
  readonly mode: string;
  readonly policy: string;
  readonly seq: number | null;
  readonly at: string | null;
  /** True: safetyd cannot answer now, but may soon. The client sends the message again. */
  readonly retry: boolean;
}

/** The answer to one proposal. Act only if `allowed` is true. */
export interface Decision extends Answer {
  readonly allowed: boolean;
}

const verdict: Reader<Verdict> = oneOf("allow", "require_confirmation", "block");
const opinion = objectOf<Opinion>({ guard: text, decision: verdict, rule: text, reason: text });
const DECISION: { readonly [K in keyof Answer]: Reader<Answer[K]> } = {
  id: text,
  agent: text,
  decision: verdict,
  status: or(oneOf("final", "pending"), "final"),
  cause: or(text, "policy"),
  reason: or(text, ""),
  triggered_rules: or(listOf(text), []),
  confidence: or(number, 1),
  verdicts: or(listOf(opinion), []),
  tier: optional(text),
  risk: optional(text),
  reversibility: optional(text),
  request_id: optional(text),
  retry_after_s: optional(number),
  limit_id: optional(text),
  agent_message: or(text, ""),
  digest: or(text, ""),
  claim_required: or(flag, false),
  expires_at: optional(time),
  reachable_from: optional(time),
  mode: or(text, ""),
  policy: or(text, ""),
  seq: optional(number),
  at: optional(time),
  retry: or(flag, false),
};
const answer = objectOf<Answer>(DECISION);

export const DECISION_FIELDS: readonly string[] = Object.keys(DECISION);

export const decision: Reader<Decision> = (value) => decided(answer(value));

export function decided(said: Answer): Decision {
  return Object.freeze({ ...said, allowed: said.decision === "allow" });
}

/** A refusal of any message. With `retry`, safetyd may accept the message soon. */
export interface Refusal {
  readonly retry: boolean;
  readonly reason: string;
  readonly error: string;
}

export const refusal = objectOf<Refusal>({
  retry: or(flag, false),
  reason: or(text, ""),
  error: or(text, ""),
});

/** The answer to a claim. Begin the approved action only if `granted` is true. */
export interface Claim {
  readonly granted: boolean;
  readonly cause: string;
  readonly reason: string;
}

export const claimed = objectOf<Claim>({ granted: flag, cause: text, reason: or(text, "") });

/** The answer to telemetry: whether the message is in the journal. */
export interface Noted {
  readonly ok: boolean;
  readonly error: string;
  readonly code: string | null;
}

export const noted = objectOf<Noted>({ ok: flag, error: or(text, ""), code: optional(text) });

/** The state of a permission request. Act only if `status` is approved. */
export type PermissionResult =
  | { readonly status: "approved"; readonly message: string }
  | { readonly status: "denied"; readonly reason: string; readonly cause: string }
  | { readonly status: "queued"; readonly request_id: string }
  | { readonly status: "timeout"; readonly timeout_minutes: number | null };

interface Said {
  readonly approved: boolean | null;
  readonly queued: boolean;
  readonly message: string;
  readonly reason: string;
  readonly cause: string;
  readonly request_id: string;
  readonly timeout_minutes: number | null;
}

const said = objectOf<Said>({
  approved: optional(flag),
  queued: or(flag, false),
  message: or(text, ""),
  reason: or(text, ""),
  cause: or(text, "policy"),
  request_id: or(text, ""),
  timeout_minutes: optional(number),
});

export const permitted: Reader<PermissionResult> = (value) => {
  const { approved, queued, ...rest } = said(value);
  if (queued === (approved !== null)) {
    throw new TypeError("neither queued nor answered, or both");
  }
  if (queued) {
    return { status: "queued", request_id: rest.request_id };
  }
  if (approved) {
    return { status: "approved", message: rest.message };
  }
  if (rest.cause === "expired_no_response") {
    return { status: "timeout", timeout_minutes: rest.timeout_minutes };
  }
  return { status: "denied", reason: rest.reason, cause: rest.cause };
};

/** A request of this agent that is pending, or approved and not yet used. */
export interface OwnRequest {
  readonly request_id: string;
  readonly action: string;
  readonly status: "pending" | "approved";
  readonly expires_at: string | null;
  readonly message: string;
}

export const ownRequests = objectOf<{ readonly requests: readonly OwnRequest[] }>({
  requests: listOf(objectOf<OwnRequest>({
    request_id: text,
    action: text,
    status: oneOf("pending", "approved"),
    expires_at: optional(time),
    message: or(text, ""),
  })),
});

/** A `state.stop` message. `agent` is null for a stop of all agents. */
export interface Stop {
  readonly active: boolean;
  readonly epoch: number;
  readonly agent: string | null;
}

export const stop = objectOf<Stop>({ active: flag, epoch: or(number, 0), agent: optional(text) });
