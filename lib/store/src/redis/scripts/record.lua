-- What the scripts on records share.

-- All of a record, in the order in which its reader takes it. The lines of its journal are in
-- fields of their own, counted by `lines`.
local FIELDS = {
  'identity', 'class', 'retake_after', 'retake_until', 'state', 'epoch', 'nonce', 'prints',
  'lease_until', 'expires_at', 'reuse_at', 'checkpoint', 'outcome', 'attempts', 'caller',
  'created_at', 'completed_at', 'format', 'lines',
}

local key, now = KEYS[1], clock()
local record = read(key, FIELDS)

-- The answer of a step that changed nothing: the record as it stands.
local function found()
  return { 'found', now, unpack(record.values) }
end

local function applied(epoch)
  return { 'applied', now, epoch }
end

-- Whether the fence is that of the current attempt.
local function is_owned(epoch, nonce)
  return record.epoch == epoch
    and record.nonce == nonce
end

-- Whether an attempt has begun and nobody has said how it ended.
local function is_unresolved()
  return record.state == CLAIMED
    or record.state == UNKNOWN
end

-- Adds pairs to a list of fields to be written.
local function add(fields, ...)
  for _, part in ipairs({ ... }) do fields[#fields + 1] = part end
end

-- Adds a line of the journal.
local function tell(fields, epoch, event, actor, note)
  local count = (tonumber(record.lines) or 0) + 1
  add(fields, 'lines', count, 'line:' .. count,
    table.concat({ now, epoch, event, actor, note }, '\n'))
  if count > LINES_MAX then redis.call('HDEL', key, 'line:' .. (count - LINES_MAX)) end
end

local function write(fields)
  redis.call('HSET', key, unpack(fields))
end

-- From `planned` on the record counts as absent, but no sooner than the clock has passed the
-- epoch: an absent record gives the time as the next epoch, and that must be the higher one.
local function set_horizon(fields, epoch, planned)
  local reuse_at = later(planned, plus(epoch, '1'))
  add(fields, 'reuse_at', reuse_at)
  leave(key, reuse_at)
end

-- Closes the record with its answer. Without `keep` it is kept for ever.
local function close(fields, epoch, outcome, keep, grace)
  redis.call('HDEL', key, 'checkpoint')
  add(fields, 'state', COMPLETED, 'outcome', outcome, 'completed_at', now)
  if keep ~= '' then
    local expires_at = plus(now, keep)
    add(fields, 'expires_at', expires_at)
    set_horizon(fields, epoch, plus(expires_at, grace))
  end
end

-- Surely no effect: the request is forgotten, nonce and epoch are remembered for `memory`.
local function open(fields, epoch, memory)
  redis.call('HDEL', key, 'checkpoint')
  add(fields, 'state', OPEN, 'prints', '')
  set_horizon(fields, epoch, plus(now, memory))
end
