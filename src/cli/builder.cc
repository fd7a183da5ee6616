// The commands about the builder itself.

#include <array>
#include <csignal>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mvm/agent/exec.h"
#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/sys/error.h"
#include "mvm/sys/file.h"

#include "json_text.h"
#include "sandbox_builder.h"
#include "settings.h"

namespace mvm::cli {
namespace {

constexpr size_t kMaxGarbageLog = 4096;

config::Settings settings_here(const Context& context) {
  return decide(context, {}, {}, std::nullopt).resolved.settings;
}

std::string store_disk(const Context& context) { return context.paths.kept_disk(kBuilderName); }

// What a disk takes of the host's, holes left out.
uint64_t used_by(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return 0;
    throw SystemError(errno, "reading status of " + path);
  }
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

}

int builder_status(Context& context, const Arguments& arguments) {
  const auto sandbox = find_builder(context.service());
  const auto user = builder_user(context);
  const uint64_t store = used_by(store_disk(context));
  const uint64_t used = store + (sandbox ? used_by(context.paths.overlay_image(sandbox->id)) : 0);
  if (arguments.flag("json")) {
    context.console.out("{\"sandbox\":" + (sandbox ? api::encode(*sandbox) : std::string("null")) +
                        ",\"disk_used\":" + std::to_string(used) +
                        ",\"building\":" + (user ? "true" : "false") + "}\n");
    return kFine;
  }
  if (!sandbox) {
    context.console.out(store == 0
                            ? "there is no builder yet; the first `mvm build` makes it\n"
                            : "there is no builder; the next `mvm build` makes it, with the store "
                              "that was kept (" +
                                  format_size(store) + ")\n");
    return kFine;
  }
  context.console.out(
      "builder " + std::string(kBuilderName) + ": " + std::string(state_name(sandbox->state)) +
      (user ? ", building for process " + *user : std::string()) +
      "\nimage: " + printable(sandbox->image, 80) + ", " + sandbox->image_digest.substr(0, 12) +
      "\nmemory: " + format_size(sandbox->memory) + ", " + std::to_string(sandbox->cpus) +
      " CPUs\nstore: " + format_size(store) + " here, other files: " + format_size(used - store) +
      "; each at most " + format_size(sandbox->disk) + "\n");
  return kFine;
}

int builder_shell(Context& context, const Arguments&) {
  start_builder(context, settings_here(context), false);
  ExecOptions options;
  options.sandbox = kBuilderName;
  options.argv = {"/bin/sh", "-l"};
  options.interactive = true;
  options.tty = ::isatty(STDIN_FILENO) == 1 && context.console.look().out_terminal;
  return exec(context, options);
}

int builder_collect(Context& context, const Arguments& arguments) {
  const bool quiet = arguments.flag("quiet");
  constexpr std::array kTaken = {SIGINT, SIGTERM, SIGHUP};
  SignalQueue signals(kTaken);
  const config::Settings settings = settings_here(context);
  SandboxBuilder builder(context, settings, quiet, signals.fd());
  if (!find_builder(context.service()) && !sys::exists(store_disk(context))) {
    if (!quiet) context.console.out("there is no builder, and no garbage\n");
    return kFine;
  }
  proto::ExecRequest request;
  request.argv = {"nix-collect-garbage"};
  request.env = {{"HOME", "/root"}};
  std::string said;
  const auto result =
      agent::run_command(builder.connection(), request, [&](agent::Stream, ByteView data) {
        said += as_text(data);
        if (said.size() > 2 * kMaxGarbageLog) said.erase(0, said.size() - kMaxGarbageLog);
      });
  while (said.ends_with('\n')) said.pop_back();
  const std::string last = said.substr(said.rfind('\n') + 1);
  if (result.exit_code != 0 || result.signal != 0)
    throw Error(Kind::Unavailable, "the builder's garbage collection failed: " + tame(last));
  if (!quiet) context.console.out(printable(last) + "\n");
  return kFine;
}

int builder_reset(Context& context, const Arguments& arguments) {
  constexpr std::array kTaken = {SIGINT, SIGTERM, SIGHUP};
  SignalQueue signals(kTaken);
  const BuilderTurn turn(context, signals.fd());
  const bool sandbox = find_builder(context.service()).has_value();
  if (sandbox) context.service().remove(std::string(kBuilderName), true);
  const std::string store = store_disk(context);
  const bool there = sandbox || sys::exists(store);
  sys::remove_file(store);
  if (!arguments.flag("quiet"))
    context.console.out(there ? "the builder is removed, with its store\n"
                              : "there is no builder\n");
  return kFine;
}

}
