-- A database of some thousand rows: made, indexed, changed, asked, checked.
CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city INTEGER, weight REAL);
CREATE TABLE cities (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)
INSERT INTO cities SELECT i, 'city ' || hex(i * 7919 % 9973) FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
INSERT INTO people
SELECT i, printf('%08x', i * 2654435761 % 4294967296), i * 31 % 50 + 1, (i * 7919 % 1000) / 7.0 FROM n;
COMMIT;
CREATE INDEX by_name ON people (name);
CREATE INDEX by_city ON people (city, weight DESC);
SELECT count(*), min(name), max(name), round(sum(weight), 6) FROM people;
SELECT c.name, count(*), round(avg(p.weight), 9) FROM people p JOIN cities c ON c.id = p.city
GROUP BY c.id ORDER BY 3 DESC, 1 LIMIT 5;
EXPLAIN QUERY PLAN SELECT * FROM people WHERE name = 'x';
UPDATE people SET weight = weight * 1.01 WHERE city IN (SELECT id FROM cities WHERE name LIKE '%3');
DELETE FROM people WHERE id % 7 = 0;
SELECT count(*), round(total(weight), 6) FROM people;
WITH ranked AS (SELECT name, weight, rank() OVER (PARTITION BY city ORDER BY weight DESC, id) AS r
  FROM people)
SELECT group_concat(name, ' ') FROM (SELECT name FROM ranked WHERE r = 1 ORDER BY name LIMIT 6);
CREATE VIEW heavy AS SELECT * FROM people WHERE weight > 130;
SELECT count(*), sum(length(name)) FROM heavy;
BEGIN;
DELETE FROM people;
SELECT count(*) FROM people;
ROLLBACK;
SELECT count(*) FROM people;
VACUUM;
PRAGMA integrity_check;
PRAGMA foreign_key_check;
