// Package pglocal runs a private Postgres for one machine in a data directory:
// nothing to install by hand, nothing to configure, reachable through a Unix
// socket alone. It uses the server binaries it finds, else downloads some. The
// server runs as an unprivileged user when this process is root, and ends with
// this process.
//
// A data directory holds
//
//	pg/            the cluster's files
//	run/           the socket, where the path is short enough for one
//	postgres.log   what the server said
//	lock           held by the process that runs the cluster
package pglocal
