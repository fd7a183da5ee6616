#pragma once
// What the commands do. Each returns the exit code; failures are thrown.

#include <string>
#include <vector>

#include "mvm/cli/context.h"
#include "mvm/cli/options.h"

namespace mvm::cli {

// Dispatches to the actions below.
int run_command(Context& context, const Arguments& arguments);

// ---- settings --------------------------------------------------------------------------------
int init(Context& context, const Arguments& arguments);
int config_validate(Context& context, const Arguments& arguments);
int config_show(Context& context, const Arguments& arguments);

int policy_explain(Context& context, const ExplainOptions& options, const Arguments& arguments);

// ---- the network of a running sandbox ---------------------------------------------------------
int policy_allow(Context& context, const Arguments& arguments);
int policy_deny(Context& context, const Arguments& arguments);
int policy_list(Context& context, const Arguments& arguments);
int policy_suggest(Context& context, const Arguments& arguments);
int policy_pending(Context& context, const Arguments& arguments);
int policy_approve(Context& context, const Arguments& arguments);

// ---- sandboxes -------------------------------------------------------------------------------
int up(Context& context, const UpOptions& options);
int ps(Context& context, const Arguments& arguments);
int inspect(Context& context, const Arguments& arguments);
int logs(Context& context, const Arguments& arguments);
int down(Context& context, const DownOptions& options);
int remove(Context& context, const Arguments& arguments);

// ---- in a sandbox ----------------------------------------------------------------------------
int exec(Context& context, const ExecOptions& options);
int shell(Context& context, const Arguments& arguments);
int console(Context& context, const Arguments& arguments);
int run(Context& context, const RunOptions& options);
int copy(Context& context, const CopyOptions& options);
int files(Context& context, const Arguments& arguments);  // the commands `fs ...`
int stats(Context& context, const Arguments& arguments);
int port(Context& context, const PortOptions& options);
int mcp(Context& context, const Arguments& arguments);

// ---- images ----------------------------------------------------------------------------------
int image_import(Context& context, const Arguments& arguments);
int image_list(Context& context, const Arguments& arguments);
int image_inspect(Context& context, const Arguments& arguments);
int image_remove(Context& context, const Arguments& arguments);
int image_pull(Context& context, const Arguments& arguments);
int image_tag(Context& context, const Arguments& arguments);
int image_verify(Context& context, const Arguments& arguments);
int image_export(Context& context, const Arguments& arguments);
int image_prune(Context& context, const Arguments& arguments);
// Pulls what a sandbox is to be made from when it names an image in a registry (a path or a digest)
// and is not here yet. What is here is used as it is, without asking the registry.
void ensure_image(Context& context, const std::string& reference, bool quiet);

// ---- flakes ----------------------------------------------------------------------------------
int build_flake(Context& context, const BuildOptions& options);
// What `up` starts from when the settings name a flake: built where it has to be.
api::Image build_image_of(Context& context, const config::Settings& settings,
                          const std::string& name, bool quiet);
int builder_status(Context& context, const Arguments& arguments);
int builder_shell(Context& context, const Arguments& arguments);
int builder_collect(Context& context, const Arguments& arguments);
int builder_reset(Context& context, const Arguments& arguments);

int kernel_import(Context& context, const Arguments& arguments);
int kernel_list(Context& context, const Arguments& arguments);
int kernel_remove(Context& context, const Arguments& arguments);

// ---- audit -----------------------------------------------------------------------------------
int audit_tail(Context& context, const Arguments& arguments);
int audit_show(Context& context, const Arguments& arguments);
int audit_verify(Context& context, const Arguments& arguments);
int audit_export(Context& context, const Arguments& arguments);
int audit_why(Context& context, const Arguments& arguments);
int egress_log(Context& context, const std::string& sandbox, bool follow);  // `logs --egress`

// ---- use of AI -------------------------------------------------------------------------------
int ai_usage(Context& context, const Arguments& arguments);
int ai_budget(Context& context, const Arguments& arguments);
int metrics(Context& context, const Arguments& arguments);
// ---- secrets ---------------------------------------------------------------------------------
int secret_set(Context& context, const Arguments& arguments);
int secret_list(Context& context, const Arguments& arguments);
int secret_remove(Context& context, const Arguments& arguments);
int secret_test(Context& context, const Arguments& arguments);

// ---- mvm itself ------------------------------------------------------------------------------
int doctor(Context& context, const Arguments& arguments);
int policy_scan(Context& context, const Arguments& arguments);
int daemon_status(Context& context, const Arguments& arguments);
int daemon_stop(Context& context);

}
