// Commands about guest kernels.

#include "mvm/base/text.h"
#include "mvm/cli/actions.h"
#include "mvm/sys/file.h"

namespace mvm::cli {

int kernel_import(Context& context, const Arguments& arguments) {
  const std::string source = *arguments.positional("SOURCE");
  api::KernelImportRequest request;
  request.source = context.absolute(source);
  request.make_default = arguments.flag("default");
  if (!sys::exists(request.source)) throw Error(Kind::NotFound, "there is no " + printable(source));
  const api::Kernel kernel = context.service().import_kernel(request);
  if (arguments.flag("json")) {
    context.console.out(api::encode(kernel) + '\n');
  } else if (!arguments.flag("quiet")) {
    context.console.out("kernel " + printable(kernel.name, 60) + ": " + format_size(kernel.size) +
                        ", " + std::to_string(kernel.modules) + " modules" +
                        (kernel.is_default ? ", the default\n" : "\n"));
  }
  return kFine;
}

int kernel_list(Context& context, const Arguments& arguments) {
  const std::vector<api::Kernel> kernels = context.service().kernels();
  if (arguments.flag("json") && arguments.flag("quiet"))
    throw UsageError(&arguments.command(), "--quiet and --json contradict");
  if (arguments.flag("json")) {
    context.console.out(api::encode(kernels) + '\n');
    return kFine;
  }
  if (arguments.flag("quiet")) {
    std::string names;
    for (const api::Kernel& kernel : kernels) names += printable(kernel.name, 60) + '\n';
    context.console.out(names);
    return kFine;
  }
  std::vector<std::vector<std::string>> rows = {{"NAME", "SIZE", "MODULES", "DEFAULT"}};
  for (const api::Kernel& kernel : kernels)
    rows.push_back({printable(kernel.name, 60),
                    kernel.problem.empty() ? format_size(kernel.size) : "damaged",
                    kernel.problem.empty() ? std::to_string(kernel.modules) : "?",
                    kernel.is_default ? "yes" : "-"});
  context.console.out(table(rows));
  for (const api::Kernel& kernel : kernels)
    if (!kernel.problem.empty()) context.console.err("mvm: " + tame(kernel.problem) + "\n");
  return kFine;
}

int kernel_remove(Context& context, const Arguments& arguments) {
  api::Service& service = context.service();
  for (const std::string& name : arguments.positionals("KERNEL")) {
    service.remove_kernel(name, arguments.flag("force"));
    if (!arguments.flag("quiet"))
      context.console.out("kernel " + printable(name, 80) + " is removed\n");
  }
  return kFine;
}

}
