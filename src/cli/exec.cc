// Commands in a sandbox: exec, shell and run. exec speaks to the sandbox's own control socket; no
// daemon takes part unless there is no such socket and somebody has to say why.

#include <algorithm>

#include <unistd.h>

#include "mvm/base/scope_exit.h"
#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/cli/exec_session.h"
#include "mvm/crypto/random.h"
#include "mvm/sys/socket.h"

#include "audit_logs.h"
#include "ports.h"
#include "refusals.h"
#include "sandbox_link.h"
#include "secret_values.h"
#include "settings.h"

namespace mvm::cli {
namespace {

// Started by its name, so that the one the image has is found; a login shell, as at a terminal.
constexpr const char* kShellScript =
    "if command -v bash >/dev/null 2>&1; then exec bash -l; else exec sh -l; fi";

constexpr size_t kConsoleShown = 2048;  // bytes

ExecPlan plan_of(const Context& context, const ExecOptions& options) {
  ExecPlan plan;
  plan.sandbox = options.sandbox;
  plan.json = options.json;
  plan.request.redact = options.redact;
  plan.keep = options.max_output;
  plan.tell_questions = context.console.look().err_terminal && !options.json && !options.detach;
  proto::ExecRequest& request = plan.request;
  request.argv = options.argv;
  request.run = crypto::random_id("run-");
  for (auto& [name, value] : read_env_files(context, options.env_files))
    request.env.emplace_back(name, value);
  for (const auto& entry : options.env) request.env.push_back(entry);
  request.cwd = options.workdir;
  request.user = options.user;
  request.stdin_open = options.interactive;
  request.tty = options.tty;
  request.timeout = std::chrono::milliseconds(options.timeout_ms);
  request.detach = options.detach;
  request.groups = options.groups;
  request.rlimits = options.rlimits;
  request.limits = options.limits;
  // With --json each stream has a cap of its own, and is counted beyond it.
  if (!options.json) request.max_output = options.max_output;
  if (options.tty) {
    if (options.interactive && ::isatty(STDIN_FILENO) != 1)
      throw UsageError(find_command(options.sandbox.empty() ? Verb::Run : Verb::Exec),
                       "--tty with --interactive needs a terminal as standard input");
    // So that programs draw what this terminal understands.
    if (const auto term = context.variable("TERM"))
      request.env.insert(request.env.begin(), {"TERM", *term});
  }
  return plan;
}

// What an image runs when it is not told.
std::vector<std::string> command_of(const api::Image& image) {
  std::vector<std::string> argv = image.entrypoint;
  argv.insert(argv.end(), image.command.begin(), image.command.end());
  if (argv.empty())
    throw UsageError(find_command(Verb::Run), "the image " + printable(image.name) +
                                                  " names no command of its own; put one after --");
  // Such programs insist on being process 1, which here the agent is, and say so in odd ways.
  const std::string_view program = std::string_view(argv[0]).substr(argv[0].rfind('/') + 1);
  if (program == "init" || program == "systemd")
    throw api::ApiError(Kind::Unsupported,
                        "the image " + printable(image.name) + " starts an init system (" +
                            printable(argv[0], 80) +
                            "), and process 1 of a sandbox is mvm's own agent",
                        "name the service to run: mvm run IMAGE -- COMMAND");
  return argv;
}

// A connection that was lost: the daemon has seen, or is about to see, what became of the sandbox.
[[noreturn]] void explain_loss(api::Service& service, const std::string& sandbox,
                               const ConnectionLost& lost) {
  constexpr uint64_t kPatienceMs = 10'000;
  std::optional<api::Sandbox> seen;
  try {
    seen = service.wait(sandbox, {kPatienceMs});
  } catch (const Error& error) {
    if (error.kind() == Kind::NotFound) throw lost;  // removed meanwhile
    throw;
  }
  if (is_live(seen->state) || !seen->end) throw lost;
  throw SandboxEnded(
      seen->end->reason,
      "the sandbox has ended: " + std::string(proto::end_reason_name(seen->end->reason)) +
          (seen->end->detail.empty() ? "" : ": " + seen->end->detail));
}

// With the sandbox its console goes too; why it failed may stand there.
void show_end_of_console(Context& context, api::Service& service, const std::string& name) {
  std::string text;
  try {
    service.logs(name, false, [&](std::string_view piece) {
      text += piece;
      if (text.size() > 2 * kConsoleShown) text.erase(0, text.size() - kConsoleShown);
      return true;
    });
  } catch (const Error&) {
    return;  // the failure itself is reported by the caller
  }
  if (text.size() > kConsoleShown) text.erase(0, text.size() - kConsoleShown);
  if (!text.empty()) context.console.err("the end of its console:\n" + tame(text) + "\n");
}

}

// Beside what the command did, so a failure of this is a word and no more.
static void tell_refused(Context& context, const std::function<std::string()>& log,
                         const std::string& run, const std::string& hint) {
  try {
    tell_refusals(context, log(), run, hint);
  } catch (const Error& error) {
    context.console.err("mvm: what the network refused is not known: " + tame(error.message()) +
                        "\n");
  }
}

int exec(Context& context, const ExecOptions& options) {
  const ExecPlan plan = plan_of(context, options);
  int code = kFailed;
  try {
    code = run_session(context.console, connect_sandbox(context, options.sandbox), plan);
  } catch (const ConnectionLost& lost) {
    explain_loss(context.service(), options.sandbox, lost);
  }
  // For people alone: what programs read is the command's own.
  if (plan.tell_questions)
    tell_refused(
        context, [&] { return find_audit_log(context.paths, options.sandbox); }, plan.request.run,
        "mvm logs " + options.sandbox + " --egress");
  return code;
}

int shell(Context& context, const Arguments& arguments) {
  ExecOptions options = exec_options(arguments, context.variable);
  options.argv = {"/bin/sh", "-c", kShellScript};
  options.interactive = true;
  options.tty = ::isatty(STDIN_FILENO) == 1 && context.console.look().out_terminal;
  return exec(context, options);
}

int run(Context& context, const RunOptions& options) {
  ExecPlan plan = plan_of(context, options.exec);
  const std::vector<config::Layer> layers = {
      {"command line", options.machine},
      {"environment", config::settings_from_environment(context.variable)},
      {"default", config::default_settings()}};
  config::Settings settings = config::resolve(layers).settings;
  settings.name = options.machine.name;  // MVM_NAME is for the sandbox that lasts

  api::SandboxSpec spec = spec_of(context, settings);
  spec.ephemeral = true;
  // The command is sent while the sandbox boots, and starts when it can.
  spec.wait = false;
  api::Service& service = context.service();
  ensure_image(context, spec.image, options.exec.json);
  if (plan.request.argv.empty()) plan.request.argv = command_of(service.image(spec.image));
  for (const proto::SecretRule& rule : spec.secrets)
    if (plan.request.env.end() != std::ranges::find(plan.request.env, rule.name,
                                                    [](const auto& entry) { return entry.first; }))
      throw Error(Kind::Invalid,
                  "--env and --secret both set " + rule.name + "; one of the two would not hold");
  spec.secret_values = secret_values(context, spec.secrets);
  const ScopeExit forget([&] { proto::wipe(spec.secret_values); });
  const api::Sandbox sandbox = service.create(spec);
  warn_of_open_ports(context, sandbox.name, sandbox.ports);
  if (!options.quiet && !sandbox.ports.empty())
    context.console.err("mvm: ports of " + sandbox.name + ": " + ports_text(sandbox.ports) + "\n");
  plan.sandbox = sandbox.name;
  plan.sandbox_id = sandbox.id;
  plan.tell_network = true;
  if (options.quiet) plan.tell_questions = false;
  const auto remove_it = [&] {
    try {
      service.remove(sandbox.name, true);
    } catch (const Error& error) {
      if (error.kind() != Kind::NotFound) throw;  // ended and removed itself
    }
    // Only now its log is whole, which outlives it. Without a network nothing was refused.
    if (spec.network.enabled && !options.quiet && !options.exec.json)
      tell_refused(context, [&] { return sandbox.id; }, {}, "mvm logs " + sandbox.id + " --egress");
  };
  int code = kFailed;
  try {
    auto fd = sys::connect_unix(sandbox.control_socket);
    if (!fd)
      throw Error(Kind::Unavailable, "sandbox '" + sandbox.name + "' does not answer at its start");
    try {
      code = run_session(context.console, std::move(*fd), plan);
    } catch (const ConnectionLost& lost) {
      explain_loss(service, sandbox.id, lost);  // by id: an ended one's name is free again
    }
  } catch (const Error&) {
    show_end_of_console(context, service, sandbox.name);
    remove_it();
    throw;
  }
  remove_it();
  return code;
}

}
