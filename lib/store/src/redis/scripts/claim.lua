-- Takes the work if nobody has it, or if its holder is dead and the terms allow it.

local nonce, prints, lease, class, retake_after, window, attempts_max, caller, identity =
  unpack(ARGV)
local record = redis.call('EXISTS', key) == 1 and read(key, FIELDS) or {}

-- Whether a print of one is a print of the other.
local function shares_a_print(mine, theirs)
  local size = 34
  for my = 1, #mine, size do
    for their = 1, #theirs, size do
      local print = string.sub(mine, my, my + size - 1)
      if print == string.sub(theirs, their, their + size - 1) then return true end
    end
  end
  return false
end

-- Who brings no print compares nothing.
local function asks_the_same()
  return record.prints == ''
    or prints == ''
    or shares_a_print(record.prints, prints)
end

-- Given back, and this is no late packet of the attempt that gave it back.
local function is_open()
  return record.state == OPEN
    and record.nonce ~= nonce
end

local function may_begin()
  return not record.state
    or has_come(record.reuse_at, now)
    or is_open()
end

-- The end of take-overs by the terms of the claim, if its first attempt began at `since`.
local function claimed_until(since)
  return is_there(window) and plus(since, window) or ''
end

-- The stricter of the terms of the record and of the claim, in every respect.
local function stricter_terms()
  local mine, other = record.retake_until, claimed_until(record.created_at)
  if not is_there(mine) then mine = other end
  if not is_there(other) then other = mine end
  local both = is_there(record.retake_after) and is_there(retake_after)
  return {
    class = later(record.class, class),
    retake_after = both and later(record.retake_after, retake_after) or '',
    retake_until = sooner(mine, other),
  }
end

local function may_retake(terms)
  return record.state ~= COMPLETED
    and record.nonce ~= nonce
    and asks_the_same()
    and is_there(terms.retake_after)
    and not has_come(terms.retake_until, now)
    and tonumber(record.attempts) < tonumber(attempts_max)
    and has_come(plus(record.lease_until, terms.retake_after), now)
end

-- Makes the caller the holder of an attempt on what was asked by `asked`.
local function hold(asked, terms, attempt, event)
  local epoch, number = epoch_after(record.epoch, now), line_after(record.lines)
  redis.call('HSET', key, 'state', CLAIMED, 'epoch', epoch, 'nonce', nonce,
    'attempts', attempt, 'lease_until', plus(now, lease), 'caller', caller,
    'class', terms.class, 'retake_after', terms.retake_after,
    'retake_until', terms.retake_until, 'identity', asked.identity, 'prints', asked.prints,
    'created_at', asked.created_at, 'format', FORMAT,
    'lines', number, 'line:' .. number, line(epoch, event, caller, ''))
  local point = asked.checkpoint or false
  return { 'granted', now, epoch, attempt, asked.created_at, terms.class, point }
end

if may_begin() then
  if record.state then
    -- All but the journal.
    redis.call('HDEL', key, unpack(FIELDS, 1, #FIELDS - 1))
    redis.call('PERSIST', key)
  end
  local asked = { identity = identity, prints = prints, created_at = now }
  local terms =
    { class = class, retake_after = retake_after, retake_until = claimed_until(now) }
  return hold(asked, terms, '1', 'claimed')
end

local terms = stricter_terms()
if may_retake(terms) then return hold(record, terms, plus(record.attempts, '1'), 'retaken') end
return found(record.values)
