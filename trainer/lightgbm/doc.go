// Package lightgbm grows forests with an installed LightGBM: it writes rows,
// weights and parameters as files, runs the command, and reads the forest that
// was written. The command may run on several machines.
//
// Files and parameters are those of LightGBM's documentation (Parameters, Quick
// Start and Distributed Learning Guide, versions 3.2 to 4.6).
package lightgbm
