package gbdt

// WeightedQuantile lets tests compare quickselect with sorting.
var WeightedQuantile = weightedQuantile
