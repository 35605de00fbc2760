-- Stores the outcome and closes the record.

local epoch, nonce, outcome, keep, grace = unpack(ARGV)

local function may_complete()
  return is_owned(epoch, nonce)
    and is_unresolved()
end

if not may_complete() then return found() end
local fields = {}
close(fields, epoch, outcome, keep, grace)
tell(fields, epoch, 'completed', record.caller, '')
write(fields)
return applied(epoch)
