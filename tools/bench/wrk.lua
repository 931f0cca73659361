-- Sends the requests of a file with wrk, in their order, and prints one line of JSON at the end.
--
-- The environment has the arguments: REQUESTS (a file with the length of each request in a line, then its
-- bytes) and FIRST (the number of the first request to send). Ten number signs become another number in
-- each request. Run wrk with -t1: the threads of wrk share nothing, so several would ask the same questions.

local befores, afters = {}, {}
-- One less, since wrk takes a first request that it only examines.
local number = tonumber(os.getenv("FIRST")) - 1

function init(arguments)
  local file = io.open(os.getenv("REQUESTS"), "rb")
  for length in function() return file:read("*n", 1) end do
    local request = file:read(length)
    local at = request:find("##########", 1, true)
    befores[#befores + 1] = at and request:sub(1, at - 1) or request
    afters[#afters + 1] = at and request:sub(at + 10) or false
  end
end

function request()
  number = number + 1
  local place = (number - 1) % #befores + 1
  local after = afters[place]
  return after and string.format("%s%010d%s", befores[place], number, after) or befores[place]
end

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"microseconds":%d,"refused":%d,"failed":%d,' ..
    '"p99_microseconds":%d,"longest_microseconds":%d}\n',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(99), latency.max))
end
