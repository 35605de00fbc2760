-- What the scripts on records share.

-- The answer of a step that changed nothing: the record as it stands.
local function found(key, now)
  return { 'found', now, unpack(redis.call('HMGET', key, unpack(FIELDS))) }
end

local function applied(epoch, now)
  return { 'applied', now, epoch }
end

-- Whether the fence is that of the current attempt.
local function is_owned(record, epoch, nonce)
  return record.epoch == epoch
    and record.nonce == nonce
end

-- Whether an attempt has begun and nobody has said how it ended.
local function is_unresolved(record)
  return record.state == CLAIMED
    or record.state == UNKNOWN
end

-- Writes a line of the journal.
local function tell(key, now, epoch, event, actor, note)
  local count = redis.call('HINCRBY', key, 'lines', 1)
  local line = table.concat({ now, epoch, event, actor, note }, '\n')
  redis.call('HSET', key, 'line:' .. count, line)
  if count > LINES_MAX then redis.call('HDEL', key, 'line:' .. (count - LINES_MAX)) end
end

-- From `planned` on the record counts as absent, but no sooner than the clock has passed the
-- epoch: an absent record gives the time as the next epoch, and that must be the higher one.
local function set_horizon(key, epoch, planned)
  local reuse_at = later(planned, plus(epoch, '1'))
  redis.call('HSET', key, 'reuse_at', reuse_at)
  leave(key, reuse_at)
end

-- Closes the record with its answer. Without `keep` it is kept for ever.
local function close(key, now, epoch, outcome, keep, grace)
  redis.call('HDEL', key, 'checkpoint')
  redis.call('HSET', key, 'state', COMPLETED, 'outcome', outcome, 'completed_at', now)
  if keep ~= '' then
    local expires_at = plus(now, keep)
    redis.call('HSET', key, 'expires_at', expires_at)
    set_horizon(key, epoch, plus(expires_at, grace))
  end
end

-- Surely no effect: the request is forgotten, nonce and epoch are remembered for `memory`.
local function open(key, now, epoch, memory)
  redis.call('HDEL', key, 'checkpoint')
  redis.call('HSET', key, 'state', OPEN, 'prints', '')
  set_horizon(key, epoch, plus(now, memory))
end
