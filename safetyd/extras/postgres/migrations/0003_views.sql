-- What people ask. Days are days of UTC, as in budgets.

CREATE VIEW cost_per_day AS
SELECT
    (at AT TIME ZONE 'UTC')::date AS day,
    agent,
    sum(cost_usd) AS cost_usd,
    count(*) AS actions,
    sum(input_tokens) AS input_tokens,
    sum(output_tokens) AS output_tokens
FROM outcomes
GROUP BY 1, 2;

CREATE VIEW cost_per_model AS
SELECT
    (at AT TIME ZONE 'UTC')::date AS day,
    model,
    sum(cost_usd) AS cost_usd,
    count(*) AS calls
FROM outcomes
WHERE model IS NOT NULL
GROUP BY 1, 2;

CREATE VIEW errors_per_day AS
SELECT
    (at AT TIME ZONE 'UTC')::date AS day,
    agent,
    count(*) AS outcomes,
    count(*) FILTER (WHERE NOT ok) AS errors,
    round(count(*) FILTER (WHERE NOT ok)::numeric / count(*), 4) AS error_ratio
FROM outcomes
GROUP BY 1, 2;

CREATE VIEW decisions_per_day AS
SELECT
    (at AT TIME ZONE 'UTC')::date AS day,
    agent,
    count(*) FILTER (WHERE decision = 'allow') AS allowed,
    count(*) FILTER (WHERE decision = 'require_confirmation') AS asked,
    count(*) FILTER (WHERE decision = 'block') AS blocked
FROM decisions
WHERE counts
GROUP BY 1, 2;

CREATE VIEW top_rules AS
SELECT
    rule,
    count(*) AS times,
    count(*) FILTER (WHERE decision = 'block') AS blocked,
    count(*) FILTER (WHERE decision = 'require_confirmation') AS asked,
    count(DISTINCT agent) AS agents,
    max(at) AS last_at
FROM (SELECT DISTINCT seq, at, agent, decision, unnest(rules) AS rule FROM decisions WHERE counts)
    AS restricted
GROUP BY rule;

CREATE VIEW blocked_by_rule AS
SELECT
    (at AT TIME ZONE 'UTC')::date AS day,
    rule,
    cause,
    agent,
    count(*) AS times,
    max(at) AS last_at,
    (array_agg(seq ORDER BY at DESC))[1] AS last_seq
FROM decisions
WHERE counts AND decision = 'block'
GROUP BY 1, 2, 3, 4;

-- How each request ended: by the first step that ends one.
CREATE VIEW request_ends AS
SELECT
    r.request_id,
    r.at AS asked_at,
    r.agent,
    r.proposal_id,
    r.type,
    r.urgency,
    r.rule,
    r.description,
    s.step AS ended,
    s.at AS ended_at,
    s.by,
    s.via,
    s.words,
    extract(epoch FROM s.at - r.at) AS seconds
FROM requests AS r
LEFT JOIN LATERAL (
    SELECT * FROM request_steps AS every
    WHERE every.request_id = r.request_id
    AND every.step IN ('approved', 'denied', 'expired', 'cancelled', 'superseded')
    ORDER BY every.seq LIMIT 1
) AS s ON true;

CREATE VIEW open_requests AS
SELECT request_id, asked_at, agent, proposal_id, type, urgency, rule, description
FROM request_ends
WHERE ended IS NULL;

CREATE VIEW time_to_answer AS
SELECT
    (asked_at AT TIME ZONE 'UTC')::date AS day,
    split_part(via, ':', 1) AS via,
    urgency,
    count(*) AS answers,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS median_s,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS p95_s
FROM request_ends
WHERE ended IN ('approved', 'denied')
GROUP BY 1, 2, 3;

-- What became of each message.
CREATE VIEW delivery_ends AS
SELECT
    d.delivery_id,
    d.at AS due_at,
    d.recipient,
    d.channel,
    d.urgency,
    d.items,
    d.request_ids,
    s.state,
    s.at AS state_at,
    s.attempts,
    s.error,
    extract(epoch FROM s.at - d.at) AS seconds
FROM deliveries AS d
LEFT JOIN LATERAL (
    SELECT * FROM delivery_steps AS every
    WHERE every.delivery_id = d.delivery_id ORDER BY every.seq DESC LIMIT 1
) AS s ON true;

-- How sure agents said they were, against what came of it: ten bins for each agent.
CREATE VIEW stated_confidence AS
SELECT
    d.agent,
    least(floor(d.confidence * 10)::integer, 9) / 10.0 AS at_least,
    count(*) AS decisions,
    count(*) FILTER (WHERE d.decision = 'block') AS blocked,
    count(o.seq) AS outcomes,
    count(*) FILTER (WHERE o.ok) AS succeeded
FROM decisions AS d
LEFT JOIN outcomes AS o ON o.agent = d.agent AND o.proposal_id = d.proposal_id
WHERE d.counts AND d.confidence IS NOT NULL
GROUP BY 1, 2;
