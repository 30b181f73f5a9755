// Package drift notices that the world has left what forecasts were learned
// from, before the next refit would. It looks at one outcome after the other
// and keeps a few numbers, no rows.
package drift
