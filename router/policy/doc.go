// Package policy is the choice: given the endpoints as one decision sees
// them, which one gets the request, with what probability, and why. It is pure
// and shared by production, simulation and offline evaluation.
//
// Decide reads nothing but its Input. Encode writes an Input down so that the
// same choice and the same probabilities, bit for bit, can be made from it
// later (Replay).
package policy
