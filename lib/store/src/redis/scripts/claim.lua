-- Takes the work if nobody has it, or if its holder is dead and the terms allow it.

local nonce, prints, lease, class, retake_after, window, attempts_max, caller, identity =
  unpack(ARGV)

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

-- The terms of the claim, if its first attempt began at `since`.
local function terms_of_claim(since)
  return {
    class = class,
    retake_after = retake_after ~= '' and retake_after,
    retake_until = window ~= '' and plus(since, window),
  }
end

-- The stricter of the terms of the record and of the claim, in every respect.
local function stricter_terms()
  local claimed = terms_of_claim(record.created_at)
  local both = record.retake_after and claimed.retake_after
  return {
    class = later(record.class, claimed.class),
    retake_after = both and later(record.retake_after, claimed.retake_after),
    retake_until = sooner(
      record.retake_until or claimed.retake_until,
      claimed.retake_until or record.retake_until
    ),
  }
end

local function may_retake(terms)
  return record.state ~= COMPLETED
    and record.nonce ~= nonce
    and asks_the_same()
    and terms.retake_after
    and not has_come(terms.retake_until, now)
    and tonumber(record.attempts) < tonumber(attempts_max)
    and has_come(plus(record.lease_until, terms.retake_after), now)
end

-- Makes the caller the holder of an attempt.
local function hold(fields, terms, epoch, attempt, since, point, event)
  add(fields, 'state', CLAIMED, 'epoch', epoch, 'nonce', nonce, 'attempts', attempt,
    'lease_until', plus(now, lease), 'caller', caller, 'class', terms.class)
  if terms.retake_after then add(fields, 'retake_after', terms.retake_after) end
  if terms.retake_until then add(fields, 'retake_until', terms.retake_until) end
  tell(fields, epoch, event, caller, '')
  write(fields)
  return { 'granted', now, epoch, attempt, since, terms.class, point }
end

if may_begin() then
  if record.state then
    -- All but the journal.
    redis.call('HDEL', key, unpack(FIELDS, 1, #FIELDS - 1))
    redis.call('PERSIST', key)
  end
  local fields =
    { 'identity', identity, 'prints', prints, 'created_at', now, 'format', FORMAT }
  local epoch = epoch_after(record.epoch, now)
  return hold(fields, terms_of_claim(now), epoch, '1', now, false, 'claimed')
end

local terms = stricter_terms()
if may_retake(terms) then
  local attempt = string.format('%d', record.attempts + 1)
  local epoch = epoch_after(record.epoch, now)
  return hold({}, terms, epoch, attempt, record.created_at, record.checkpoint, 'retaken')
end
return found()
