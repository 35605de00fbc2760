-- What the scripts on records share.

-- All of a record, in the order in which its reader takes it. The lines of its journal are in
-- fields of their own, counted by `lines`.
local FIELDS = {
  'identity', 'class', 'retake_after', 'retake_until', 'state', 'epoch', 'nonce', 'prints',
  'lease_until', 'expires_at', 'reuse_at', 'checkpoint', 'outcome', 'attempts', 'caller',
  'created_at', 'completed_at', 'format', 'lines',
}
-- What a holder and a judge need to know.
local STANDING = { 'state', 'epoch', 'nonce', 'lease_until', 'retake_after', 'caller', 'lines' }

local key, now = KEYS[1], clock()

-- The answer of a step that changed nothing: the record as it stands.
local function found(values)
  return { 'found', now, unpack(values or redis.call('HMGET', key, unpack(FIELDS))) }
end

local function applied(epoch)
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

-- A line of the journal.
local function line(epoch, event, actor, note)
  return now .. '\n' .. epoch .. '\n' .. event .. '\n' .. actor .. '\n' .. note
end

-- The number of the line that follows `lines`. The oldest line goes if there are too many.
local function line_after(lines)
  local number = is_there(lines) and lines + 1 or 1
  if number > LINES_MAX then redis.call('HDEL', key, 'line:' .. (number - LINES_MAX)) end
  return number
end

-- From `planned` on the record counts as absent, but no sooner than the clock has passed the
-- epoch: an absent record gives the time as the next epoch, and that must be the higher one.
local function set_horizon(epoch, planned)
  local reuse_at = later(planned, plus(epoch, '1'))
  redis.call('HSET', key, 'reuse_at', reuse_at)
  leave(key, reuse_at)
end

-- Closes the record with its answer. Without `keep` it is kept for ever.
local function close(record, epoch, nonce, outcome, keep, grace, told)
  local number = line_after(record.lines)
  redis.call('HDEL', key, 'checkpoint')
  redis.call('HSET', key, 'state', COMPLETED, 'epoch', epoch, 'nonce', nonce,
    'outcome', outcome, 'completed_at', now, 'lines', number, 'line:' .. number, told)
  if is_there(keep) then
    local expires_at = plus(now, keep)
    redis.call('HSET', key, 'expires_at', expires_at)
    set_horizon(epoch, plus(expires_at, grace))
  end
end

-- Surely no effect: the request is forgotten, nonce and epoch are remembered for `memory`.
local function open(record, epoch, nonce, memory, told)
  local number = line_after(record.lines)
  redis.call('HDEL', key, 'checkpoint')
  redis.call('HSET', key, 'state', OPEN, 'epoch', epoch, 'nonce', nonce, 'prints', '',
    'lines', number, 'line:' .. number, told)
  set_horizon(epoch, plus(now, memory))
end
