;; The program that `records` begins and waits for: it ends at once.
(module
  (memory (export "memory") 1)
  (func (export "_start")))
