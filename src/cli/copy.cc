// mvm cp: files and trees between this host and a sandbox.

#include "mvm/agent/copy.h"

#include <array>
#include <csignal>

#include "mvm/agent/connection.h"
#include "mvm/base/error.h"
#include "mvm/base/text.h"
#include "mvm/cli/actions.h"

#include "json_text.h"
#include "sandbox_link.h"
#include "terminal.h"

namespace mvm::cli {

static agent::TreeCounts copy_with(agent::Connection& connection, Console& console,
                                   const CopyOptions& options) {
  agent::CopyWatch watch;
  if (!options.quiet) {
    watch.note = [&](const std::string& text) { console.err("mvm: " + printable(text) + "\n"); };
    watch.progress = [&](uint64_t bytes) { console.progress("copied " + format_size(bytes)); };
  }
  if (options.direction == CopyOptions::Direction::Into) {
    return agent::put(connection, options.local, options.remote,
                      {.follow = options.follow_link,
                       .user = options.user,
                       .make_parents = options.parents,
                       .watch = std::move(watch)});
  }
  return agent::get(
      connection, options.remote, options.local,
      {.follow = options.follow_link, .make_parents = options.parents, .watch = std::move(watch)});
}

int copy(Context& context, const CopyOptions& options) {
  Console& console = context.console;
  // Interrupted, both sides remove the file that is half there: only a process that goes on can do
  // so.
  constexpr std::array kTaken = {SIGINT, SIGTERM, SIGHUP};
  SignalQueue signals(kTaken);
  SandboxLink link = link_sandbox(context, options.sandbox);
  agent::Connection connection(std::move(link.control), signals.fd());
  connection.set_dial(agent::dial_by_socket(std::move(link.vsock), signals.fd()));
  agent::TreeCounts counts;
  try {
    counts = copy_with(connection, console, options);
  } catch (const Error&) {
    const auto number = signals.next();
    if (!number) throw;
    console.clear_progress();
    console.err("mvm: interrupted; files copied until then are complete\n");
    return 128 + *number;
  }
  console.clear_progress();
  if (options.json) console.out(json_copy(counts.entries, counts.bytes, counts.skipped));
  return 0;
}

}
