#pragma once

namespace mvm::guest {

// Makes the kernel write what it holds to the disks, and does not wait for it. Only for PID 1: it
// is done by way of a setting of the kernel.
void write_out();

}
