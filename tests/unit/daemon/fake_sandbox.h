#pragma once
// A sandbox process without a machine: takes its configuration as the real one does and answers on
// its control socket, in the way that the variable FAKE of the sandbox's environment says:
//   (unset)   serves at once; stops when asked
//   never     never becomes ready
//   failed    cannot start: leaves a record of that and ends
//   stubborn  does not stop when asked
//   garbage   answers with what is no frame
//   quits     becomes ready and powers off by itself
// To `exec` it answers with the content of the file that the command's second word names.
// The test program runs itself as `<it> sandbox`.

namespace mvm::daemon {

int run_fake_sandbox();

}
