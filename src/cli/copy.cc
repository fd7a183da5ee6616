// mvm cp: files and trees between this host and a sandbox.

#include "mvm/agent/copy.h"

#include "mvm/agent/connection.h"
#include "mvm/base/text.h"
#include "mvm/cli/actions.h"

#include "json_text.h"
#include "sandbox_link.h"

namespace mvm::cli {

int copy(Context& context, const CopyOptions& options) {
  Console& console = context.console;
  agent::Connection connection(connect_sandbox(context, options.sandbox));
  agent::CopyWatch watch;
  if (!options.quiet) {
    watch.note = [&](const std::string& text) { console.err("mvm: " + printable(text) + "\n"); };
    watch.progress = [&](uint64_t bytes) { console.progress("copied " + format_size(bytes)); };
  }
  agent::TreeCounts counts;
  if (options.direction == CopyOptions::Direction::Into) {
    counts = agent::put(connection, options.local, options.remote,
                        {.follow = options.follow_link,
                         .user = options.user,
                         .make_parents = options.parents,
                         .watch = std::move(watch)});
  } else {
    counts = agent::get(connection, options.remote, options.local,
                        {.follow = options.follow_link,
                         .make_parents = options.parents,
                         .watch = std::move(watch)});
  }
  console.clear_progress();
  if (options.json) console.out(json_copy(counts.entries, counts.bytes, counts.skipped));
  return 0;
}

}
