-- What a language runtime has to do: numbers, texts, tables, closures, garbage, files.

local function queens(n)
  local solutions, columns, up, down = 0, {}, {}, {}
  local function place(row)
    if row > n then
      solutions = solutions + 1
      return
    end
    for column = 1, n do
      local a, b = row + column, row - column + n
      if not (columns[column] or up[a] or down[b]) then
        columns[column], up[a], down[b] = true, true, true
        place(row + 1)
        columns[column], up[a], down[b] = nil, nil, nil
      end
    end
  end
  place(1)
  return solutions
end
print("queens", queens(7))

-- A body falls; each bit of the result counts.
local x, v = 1.0, 0.0
for step = 1, 20000 do
  v = v - math.sin(x) * 0.001
  x = x + v * 0.001
end
print(string.format("pendulum %.17g %.17g %a", x, v, math.sqrt(x * x + v * v)))

local words, seed = {}, 7
for index = 1, 5000 do
  seed = (seed * 1103515245 + 12345) % 2147483648
  words[index] = string.format("%08x", seed):reverse()
end
table.sort(words)
print(words[1], words[2500], words[5000], #table.concat(words, " "))

local counts = {}
for letter in table.concat(words):gmatch("[a-f]") do
  counts[letter] = (counts[letter] or 0) + 1
end
for letter in ("abcdef"):gmatch(".") do
  print(letter, counts[letter])
end

local function primes()
  local sieve, number = {}, 1
  return function()
    repeat
      number = number + 1
    until not sieve[number]
    for multiple = number * number, 20000, number do
      sieve[multiple] = true
    end
    return number
  end
end
local last
local next_prime = primes()
for _ = 1, 2000 do
  last = next_prime()
end
print("the 2000th prime", last)

-- Garbage, of which little stays.
local keep = {}
for index = 1, 50000 do
  keep[index % 100] = { index, tostring(index) .. "!" }
end
collectgarbage()
print(keep[7][2], collectgarbage("count") < 1024)

local file = assert(io.open(arg[1], "w"))
for index, word in ipairs(words) do
  file:write(index, " ", word, "\n")
end
file:close()
local lines = 0
for line in io.lines(arg[1]) do
  lines = lines + #line
end
print(lines, 7 // 2, -7 // 2, -7 % 3, 1e308 * 10, 2^53 + 1, 0x7fffffffffffffff + 1)
