// Package featurestore keeps what the learned problem needs in Postgres: every
// decision and its outcomes, every bundle with its verdict, which bundle is
// served, and who may refit. It is the only door to the database.
//
// Conventions of the tables:
//
//   - An unknown number is NULL in a scalar column and NaN inside an array, so
//     that vectors and forecasts round-trip bit for bit.
//   - Times are kept to the microsecond, which is all Postgres holds: a
//     decision's time is cut, never rounded, both in its own row and in the
//     rows of its outcomes.
//   - Text that Postgres cannot hold (NUL bytes, invalid UTF-8) is repaired
//     before it is written, so that no row is refused for it.
//   - Durations and latencies are seconds.
//
// Nothing outside one transaction relies on the state of a database session,
// so the store works behind a pooler in transaction mode. Listen alone needs a
// connection of its own.
package featurestore
