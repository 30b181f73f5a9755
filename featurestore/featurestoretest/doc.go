// Package featurestoretest gives any test a real database: a private Postgres
// for the test process, and in it a fresh migrated database for every test. A
// machine without a Postgres fails such a test; it is never skipped.
//
// Memory is a twin of the store for tests that need none of Postgres, and
// Suite holds both to the same promises.
package featurestoretest
