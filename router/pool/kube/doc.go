// Package kube finds endpoints in Kubernetes: behind a Service, by its
// EndpointSlices, or among the Pods that a selector finds, as an InferencePool
// does. It alone knows the Kubernetes client.
//
// A Source watches one of the two through an informer and tells the pool all it
// has after every change, so that readiness, termination and marks are honoured
// as soon as the API server says so. After a watch was lost the informer lists
// again; while the API server is away, what it said last stands.
//
//	ready                       in the pool
//	ready, but terminating      in the pool, draining: it keeps what it has
//	not ready                   not in the pool; coming back unchanged it goes
//	                            on with the life it had
//
// Only what routing needs is read of an object and kept. Objects are read
// without their generated types: those of all of Kubernetes would come with
// them.
package kube
