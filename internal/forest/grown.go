package forest

// Tree returns tree i, from 0 to Trees()-1. It is the forest's own and must not
// be changed.
func (f *Forest) Tree(i int) Tree { return f.trees[i] }
