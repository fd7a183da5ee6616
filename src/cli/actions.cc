// Which action a command is, and the two that are too small for a file of their own.

#include "mvm/cli/actions.h"

#include "mvm/base/text.h"

namespace mvm::cli {

int run_command(Context& context, const Arguments& arguments) {
  switch (arguments.command().verb) {
    case Verb::Init:
      return init(context, arguments);
    case Verb::Up:
      return up(context, up_options(arguments, context.variable));
    case Verb::Run:
      return run(context, run_options(arguments, context.variable));
    case Verb::Exec:
      return exec(context, exec_options(arguments, context.variable));
    case Verb::Shell:
      return shell(context, arguments);
    case Verb::Console:
      return console(context, arguments);
    case Verb::Copy:
      return copy(context, copy_options(arguments));
    case Verb::FileRead:
    case Verb::FileWrite:
    case Verb::FileStat:
    case Verb::FileList:
    case Verb::FileMakeDirectory:
    case Verb::FileMove:
    case Verb::FileRemove:
    case Verb::FileWatch:
      return files(context, arguments);
    case Verb::Stats:
      return stats(context, arguments);
    case Verb::Port:
      return port(context, port_options(arguments));
    case Verb::Mcp:
      return mcp(context, arguments);
    case Verb::Logs:
      return logs(context, arguments);
    case Verb::Ps:
      return ps(context, arguments);
    case Verb::Inspect:
      return inspect(context, arguments);
    case Verb::Down:
      return down(context, down_options(arguments));
    case Verb::Remove:
      return remove(context, arguments);
    case Verb::ImageImport:
      return image_import(context, arguments);
    case Verb::ImageList:
      return image_list(context, arguments);
    case Verb::ImageInspect:
      return image_inspect(context, arguments);
    case Verb::ImageRemove:
      return image_remove(context, arguments);
    case Verb::ImagePull:
      return image_pull(context, arguments);
    case Verb::ImageTag:
      return image_tag(context, arguments);
    case Verb::ImageVerify:
      return image_verify(context, arguments);
    case Verb::ImageExport:
      return image_export(context, arguments);
    case Verb::ImagePrune:
      return image_prune(context, arguments);
    case Verb::Build:
      return build_flake(context, build_options(arguments));
    case Verb::BuilderStatus:
      return builder_status(context, arguments);
    case Verb::BuilderShell:
      return builder_shell(context, arguments);
    case Verb::BuilderCollect:
      return builder_collect(context, arguments);
    case Verb::BuilderReset:
      return builder_reset(context, arguments);
    case Verb::KernelImport:
      return kernel_import(context, arguments);
    case Verb::KernelList:
      return kernel_list(context, arguments);
    case Verb::KernelRemove:
      return kernel_remove(context, arguments);
    case Verb::AuditTail:
      return audit_tail(context, arguments);
    case Verb::AuditShow:
      return audit_show(context, arguments);
    case Verb::AuditVerify:
      return audit_verify(context, arguments);
    case Verb::AuditExport:
      return audit_export(context, arguments);
    case Verb::AuditWhy:
      return audit_why(context, arguments);
    case Verb::ConfigValidate:
      return config_validate(context, arguments);
    case Verb::ConfigShow:
      return config_show(context, arguments);
    case Verb::PolicyScan:
      return policy_scan(context, arguments);
    case Verb::SecretSet:
      return secret_set(context, arguments);
    case Verb::SecretList:
      return secret_list(context, arguments);
    case Verb::SecretRemove:
      return secret_remove(context, arguments);
    case Verb::SecretTest:
      return secret_test(context, arguments);
    case Verb::PolicyExplain:
      return policy_explain(context, explain_options(arguments), arguments);
    case Verb::PolicyAllow:
      return policy_allow(context, arguments);
    case Verb::PolicyDeny:
      return policy_deny(context, arguments);
    case Verb::PolicyList:
      return policy_list(context, arguments);
    case Verb::PolicySuggest:
      return policy_suggest(context, arguments);
    case Verb::PolicyPending:
      return policy_pending(context, arguments);
    case Verb::PolicyApprove:
      return policy_approve(context, arguments);
    case Verb::AiUsage:
      return ai_usage(context, arguments);
    case Verb::AiBudget:
      return ai_budget(context, arguments);
    case Verb::Metrics:
      return metrics(context, arguments);
    case Verb::Doctor:
      return doctor(context, arguments);
    case Verb::DaemonStatus:
      return daemon_status(context, arguments);
    case Verb::DaemonStop:
      return daemon_stop(context);
    case Verb::Daemon:
    case Verb::Completion:
    case Verb::Version:
    case Verb::Help:
      break;  // need no context; see execute()
  }
  throw Error(Kind::Internal, "mvm " + std::string(arguments.command().name) + " has no action");
}

int daemon_status(Context& context, const Arguments& arguments) {
  const auto service = context.running_service();
  if (!service) {
    context.console.out(arguments.flag("json") ? "{\"running\":false}\n" : "not running\n");
    return kNotWell;
  }
  const api::Version version = service->version();
  if (arguments.flag("json")) {
    context.console.out(api::encode(version) + '\n');
    return kFine;
  }
  std::string text = "running: version " + printable(version.version, 40) + ", pid " +
                     std::to_string(version.pid) + ", since " + printable(version.started_at, 40) +
                     ", " + std::to_string(version.sandboxes_live) + " sandboxes" +
                     (version.spare_pid != 0 ? " and a spare\n" : "\n");
  if (version.last_repair) {
    text += "last repair: " + printable(version.last_repair->at, 40) + "\n";
    for (const std::string& action : version.last_repair->actions)
      text += "  " + printable(action, 500) + "\n";
  }
  context.console.out(text);
  return kFine;
}

int daemon_stop(Context& context) {
  const auto service = context.running_service();
  if (!service) {
    context.console.out("not running\n");
    return kFine;
  }
  service->stop_daemon();
  context.console.out("the daemon ends; sandboxes go on\n");
  return kFine;
}

}
