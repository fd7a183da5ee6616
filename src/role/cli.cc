// `mvm <anything else>`: the command line, which speaks to the daemon and to sandboxes.

#include "mvm/cli/cli.h"

#include "roles.h"

namespace mvm::role {

int run_cli(int argc, char** argv) {
  // `mvm daemon` with flags is parsed by the command line first, so that wrong ones are told as
  // everywhere; the role reads them again.
  const auto serve = [argc, argv](int) { return run_daemon(argc, argv); };
  return cli::run_cli(argc, argv, {MVM_VERSION, serve});
}

}
