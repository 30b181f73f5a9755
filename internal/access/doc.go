// Package access is who may use a listener and how they show it: certificates
// over TLS, and a token that is sent as "Authorization: Bearer TOKEN".
//
// A [Guard] stands before a listener, a [Caller] shows what one asks for. All
// files may be renewed while they are in use: certificates and authorities are
// looked at for each connection, tokens for requests, at most once a second. A
// listener keeps what it had while they can't be used.
package access
