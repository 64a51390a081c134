// Package peers measures other autoscalers by their own benchmarks: `cargo xtask bench --peers`
// runs them from here, as tests of the modules that go.mod names.
package peers

import _ "sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
