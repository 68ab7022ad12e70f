-- What the lines of events say, as rows of each table. What is loaded is inserted from here, and
-- `safetyd outlet verify` compares the tables with it.

CREATE VIEW events_as_decisions AS
SELECT
    e.seq,
    e.at,
    e.body->>'agent' AS agent,
    p.body->>'id' AS proposal_id,
    e.body->>'type' AS type,
    e.body->>'decision' AS decision,
    v.strictest->>'rule' AS rule,
    CASE WHEN v.strictest IS NOT NULL THEN coalesce(v.strictest->>'cause', 'policy') END AS cause,
    v.strictest->>'reason' AS reason,
    coalesce(v.rules, '{}') AS rules,
    e.body->>'tier' AS tier,
    e.body->>'risk' AS risk,
    e.body->>'reversibility' AS reversibility,
    coalesce((e.body->>'first')::boolean, true) AS counts,
    coalesce((e.body->>'keyless')::boolean, false) AS keyless,
    e.body->'asks'->>'request_id' AS request_id,
    e.body->'uses'->>'request_id' AS used_request_id,
    ARRAY(SELECT jsonb_array_elements_text(e.body->'grants')) AS grants,
    p.body->>'session' AS session,
    p.body->>'project' AS project,
    p.body->>'chain' AS chain,
    p.body->>'task' AS task,
    p.body->>'model' AS model,
    p.body->>'provider' AS provider,
    p.body->>'dependency' AS dependency,
    (p.body->>'confidence')::double precision AS confidence,
    greatest(
        (p.body->>'cost_usd')::numeric, (e.body->>'priced_nano')::numeric / 1000000000
    ) AS estimate_usd,
    p.body->>'description' AS description,
    p.body->>'text' AS text,
    ARRAY(SELECT jsonb_array_elements_text(p.body->'paths')) AS paths,
    e.body->>'digest' AS digest
FROM events AS e
CROSS JOIN LATERAL (SELECT e.body->'proposal' AS body) AS p
LEFT JOIN LATERAL (
    SELECT
        (array_agg(one ORDER BY
            CASE one->>'decision' WHEN 'block' THEN 0 WHEN 'require_confirmation' THEN 1 ELSE 2 END,
            number))[1] AS strictest,
        array_agg(one->>'rule' ORDER BY number) AS rules
    FROM jsonb_array_elements(e.body->'verdicts') WITH ORDINALITY AS given(one, number)
) AS v ON e.body ? 'verdicts'
WHERE e.event = 'decided';

CREATE VIEW events_as_outcomes AS
SELECT
    seq,
    at,
    body->>'agent' AS agent,
    body->>'id' AS proposal_id,
    (body->>'ok')::boolean AS ok,
    body->>'type' AS type,
    body->>'session' AS session,
    body->>'chain' AS chain,
    body->>'task' AS task,
    body->>'model' AS model,
    body->>'dependency' AS dependency,
    greatest((body->>'cost_usd')::numeric, (body->>'priced_nano')::numeric / 1000000000) AS cost_usd,
    CASE WHEN body ? 'tokens' THEN coalesce((body->'tokens'->>'input')::bigint, 0) END
        AS input_tokens,
    CASE WHEN body ? 'tokens' THEN coalesce((body->'tokens'->>'output')::bigint, 0) END
        AS output_tokens,
    (body->>'latency_ms')::double precision AS latency_ms,
    (body->>'files_changed')::bigint AS files_changed,
    coalesce((body->>'keyless')::boolean, false) AS keyless
FROM events
WHERE event = 'settled';

CREATE VIEW events_as_requests AS
SELECT
    d.seq,
    d.at,
    d.request_id,
    d.agent,
    d.proposal_id,
    d.type,
    coalesce(e.body->'asks'->>'urgency', 'normal') AS urgency,
    (e.body->'asks'->>'deadline')::timestamptz AS deadline,
    d.rule,
    d.reason,
    d.description,
    d.session,
    d.project
FROM events_as_decisions AS d
JOIN events AS e ON e.seq = d.seq AND e.at = d.at
WHERE d.request_id IS NOT NULL AND NOT coalesce((e.body->'asks'->>'joins')::boolean, false);

CREATE VIEW events_as_request_steps AS
SELECT DISTINCT ON (e.seq, r.request_id, e.at)
    e.seq,
    e.at,
    r.request_id,
    CASE e.event
        WHEN 'decided' THEN CASE
            WHEN NOT e.body ? 'asks' THEN 'used'
            WHEN (e.body->'asks'->>'takes_over')::boolean THEN 'taken_over'
            WHEN (e.body->'asks'->>'joins')::boolean THEN 'joined'
            ELSE 'asked'
        END
        WHEN 'answered' THEN e.body->>'answer'
        WHEN 'released' THEN CASE WHEN e.body ? 'verdicts' THEN 'held_back' ELSE 'released' END
        ELSE e.event
    END AS step,
    e.body->>'agent' AS agent,
    CASE e.event
        WHEN 'decided' THEN e.body->'proposal'->>'id'
        WHEN 'superseded' THEN e.body->>'by_id'
        ELSE e.body->>'id'
    END AS proposal_id,
    coalesce(e.body->>'by', e.body->>'claimant') AS by,
    e.body->>'via' AS via,
    coalesce(e.body->>'words', e.body->>'reason', e.body->>'why') AS words
FROM events AS e
CROSS JOIN LATERAL jsonb_array_elements_text(
    CASE
        WHEN e.event IN ('expired', 'lapsed') THEN e.body->'request_ids'
        WHEN e.event = 'decided' THEN jsonb_build_array(
            coalesce(e.body->'asks'->'request_id', e.body->'uses'->'request_id'))
        ELSE jsonb_build_array(e.body->'request_id')
    END
) AS r(request_id)
WHERE e.event IN (
    'decided', 'answered', 'released', 'expired', 'lapsed', 'cancelled', 'superseded', 'deferred',
    'claimed', 'escalation_denied')
AND (e.event <> 'decided' OR e.body ?| ARRAY['asks', 'uses'])
ORDER BY e.seq, r.request_id, e.at;

CREATE VIEW events_as_deliveries AS
SELECT
    seq,
    at,
    body->>'delivery' AS delivery_id,
    body->>'recipient' AS recipient,
    body->>'channel' AS channel,
    body->>'urgency' AS urgency,
    ARRAY(
        SELECT item->>'ref' FROM jsonb_array_elements(body->'items') AS given(item)
        WHERE item->>'kind' IN ('request', 'reminder', 'last_call', 'expired')
    ) AS request_ids,
    jsonb_array_length(body->'items') + coalesce((body->>'more')::bigint, 0) AS items,
    (body->>'expires')::timestamptz AS expires
FROM events
WHERE event = 'due';

CREATE VIEW events_as_delivery_steps AS
SELECT DISTINCT ON (e.seq, d.delivery_id, e.at)
    e.seq,
    e.at,
    d.delivery_id,
    e.body->>'channel' AS channel,
    CASE e.event WHEN 'unparked' THEN 'unparked' ELSE e.body->>'state' END AS state,
    (e.body->>'attempts')::bigint AS attempts,
    (e.body->>'took_s')::double precision AS took_s,
    e.body->>'error' AS error,
    e.body->>'by' AS by
FROM events AS e
CROSS JOIN LATERAL jsonb_array_elements_text(
    CASE e.event WHEN 'unparked' THEN e.body->'deliveries'
    ELSE jsonb_build_array(e.body->'delivery') END
) AS d(delivery_id)
WHERE e.event IN ('told', 'not_told', 'unparked')
ORDER BY e.seq, d.delivery_id, e.at;
