// mvm console: what it says around the session.

#include <unistd.h>

#include "mvm/base/text.h"
#include "mvm/cli/actions.h"

#include "console_session.h"
#include "sandbox_link.h"

namespace mvm::cli {

int console(Context& context, const Arguments& arguments) {
  const std::string name = sandbox_name(arguments);
  sys::Fd control = connect_sandbox(context, name);
  const bool person = ::isatty(STDIN_FILENO) == 1 && !arguments.flag("quiet");
  if (person)
    context.console.err("mvm: the console of " + name +
                        "; Enter starts a shell where none runs, Ctrl-] leaves\n");
  const ConsoleResult result = sit_at_console(std::move(control));
  switch (result.end) {
    case ConsoleEnd::Detached:
      if (person) context.console.err("\nmvm: left the console of " + name + "\n");
      return kFine;
    case ConsoleEnd::Signalled:
      return 128 + result.signal;
    case ConsoleEnd::SandboxEnded:
      if (person)
        context.console.err("\nmvm: " + name + " has ended" +
                            (result.detail.empty() ? "" : ": " + result.detail) + "\n");
      return kFine;
    case ConsoleEnd::TakenOver:
      break;
  }
  throw Error(Kind::Conflict, "another mvm console sits at the console of " + name + " now");
}

}
