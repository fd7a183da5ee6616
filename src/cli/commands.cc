// The table. The order is the order of help and of docs/cli.md.

#include <array>

#include "mvm/cli/command.h"

namespace mvm::cli {
namespace {

template <size_t... Sizes>
constexpr auto joined(const std::array<Option, Sizes>&... parts) {
  std::array<Option, (Sizes + ...)> out{};
  size_t at = 0;
  const auto append = [&](const auto& part) {
    for (const Option& option : part) out.at(at++) = option;
  };
  (append(parts), ...);
  return out;
}

// ---- flags that several commands share
// ------------------------------------------------------------

constexpr Option kJson{0, "json", "", "", "Print one JSON document instead of text."};
constexpr Option kName{
    0,     "name",          "", "NAME", "The sandbox, instead of the argument NAME.", false,
    false, Offer::Sandboxes};
constexpr Option kQuiet{'q', "quiet", "", "", "Print no progress and no closing line."};
constexpr Option kManifest{
    'f', "file", "", "FILE", "Read this manifest, not ./mvm.toml.", false, false, Offer::Files};

constexpr std::array kMachine = {
    Option{0, "image", "", "IMAGE", "Image to start from. Default: base.", false, false,
           Offer::Images},
    Option{0, "kernel", "", "KERNEL",
           "Guest kernel: a name or an absolute path. Default: the host's."},
    Option{0, "cpus", "", "N", "Virtual CPUs, 1 to 32. Default: 1."},
    Option{'m', "memory", "mem", "SIZE", "Memory, such as 768M or 2G. Default: 512M."},
    Option{0, "huge-pages", "", "", "Memory from the host's reserve of 2 MiB pages."},
    Option{0, "watchdog", "", "DURATION",
           "End it when it has not answered for so long. Default: never."},
    Option{0, "disk-size", "", "SIZE", "Most it may write over its image. Default: 8G."},
    Option{0, "disk-bandwidth", "", "SIZE",
           "Most that a disk reads and writes in a second. Default: no limit."},
    Option{0, "disk-iops", "", "N",
           "Most requests that a disk serves in a second. Default: no limit."},
    Option{0, "hostname", "", "NAME", "Host name inside. Default: the sandbox's name."},
    Option{0, "profile", "", "PROFILE",
           "What it may be asked to do: dev, or sealed (one command, no file access). "
           "Default: dev."},
    Option{0, "label", "", "KEY=VALUE", "Label to find it by. May be given many times.", true},
    Option{0, "boot-timeout", "", "DURATION", "How long the start may take. Default: 60s."},
    Option{0, "ttl", "", "DURATION", "End the sandbox so long after its start. Default: never."},
};

constexpr std::array kLife = {
    Option{0, "idle-timeout", "", "DURATION",
           "End the sandbox when it was not used for so long. Default: never."},
    Option{0, "retention", "", "DURATION", "Remove it so long after its end. Default: it is kept."},
    Option{0, "wall-clock", "", "DURATION", "Longest that one command may run. Default: no limit."},
    Option{0, "pids-limit", "", "N",
           "Most processes and threads of one command. Default: no limit."},
    Option{0, "output-limit", "", "SIZE", "Most that one command may print. Default: no limit."},
};

constexpr std::array kNetwork = {
    Option{0, "no-network", "", "", "No network card at all."},
    Option{0, "network-preset", "", "PRESET",
           "Rules to begin with: none, registries, dev or agent. Default: none."},
    Option{0, "allow-host", "network-allow", "HOST",
           "Let it reach a host: example.com, *.example.com or example.com:8443. May be given many "
           "times.",
           true},
    Option{0, "allow-cidr", "", "RANGE",
           "Let it reach a range of addresses, private ones too: 10.1.0.0/16 or 10.1.2.3:5432. May "
           "be given many times.",
           true},
    Option{0, "allow-endpoint", "", "ENDPOINT",
           "Let it make one kind of request: \"GET https://example.com/v1/**\". May be given many "
           "times.",
           true},
};

constexpr std::array kPlace = {
    Option{'e', "env", "", "NAME[=VALUE]",
           "Environment variable; without a value, the one of the same name here.", true},
    Option{0, "env-file", "", "FILE", "Environment variables, one NAME=VALUE a line.", true, false,
           Offer::Files},
    Option{'w', "workdir", "", "DIR", "Directory to start in."},
    Option{'u', "user", "", "USER", "User to run as: a name, a uid, or uid:gid."},
};

constexpr std::array kStreams = {
    Option{'i', "interactive", "", "",
           "Connect standard input. Without it the command reads nothing."},
    Option{'t', "tty", "", "", "Give the command a terminal."},
    Option{0, "timeout", "", "DURATION",
           "Stop the command and all it started after this time, such as 30s; exit code 124."},
    Option{0, "max-output", "", "SIZE",
           "Drop output beyond this. Default: no limit; with --json 1M for each stream."},
};

constexpr std::array kLimits = {
    Option{0, "rlimit", "ulimit", "NAME=SOFT[:HARD]",
           "Resource limit as setrlimit(2) has it, such as nofile=1024:2048, core=0 or "
           "stack=16M; 'unlimited' for none. May be given many times.",
           true},
    Option{0, "memory-limit", "", "SIZE",
           "Memory for the command and all it starts; beyond it the kernel ends it."},
    Option{0, "pids-limit", "", "N", "Processes and threads of the command, itself included."},
    Option{0, "cpu-limit", "", "CPUS", "Processor time of the command, such as 0.5 or 2."},
    Option{0, "group-add", "", "GROUP",
           "Supplementary group, a name or a gid. May be given many times.", true},
};

// ---- init, up
// -------------------------------------------------------------------------------------

constexpr std::array kInitPositionals = {
    Positional{"NAME", "Name of the sandbox. Default: the folder's name.", false}};
constexpr std::array kInitOptions = {
    Option{0, "image", "", "IMAGE", "Image to name in the file. Default: base.", false, false,
           Offer::Images},
    Option{0, "force", "", "", "Replace an existing file."},
};
constexpr std::array<std::string_view, 2> kInitExamples = {"mvm init", "mvm init agent-sandbox"};

constexpr std::array kUpPositionals = {
    Positional{"NAME", "Name of the sandbox. Default: the manifest's, else the folder's.", false,
               false, Offer::Sandboxes}};
constexpr auto kUpOptions =
    joined(std::array{kManifest}, kMachine, kNetwork, kLife, kPlace,
           std::array{Option{0, "rm", "", "", "Remove it, with all it wrote, when it ends."}, kName,
                      kQuiet, kJson});
constexpr std::array<std::string_view, 5> kUpExamples = {
    "mvm up", "mvm up agent-sandbox", "mvm up agent-sandbox --image python --cpus 2 -m 1G",
    "mvm up agent-sandbox --allow-host example.com --network-preset registries",
    "mvm up -f box.toml --json"};

// ---- commands in a sandbox
// ------------------------------------------------------------------------

constexpr std::array kRunPositionals = {
    Positional{"IMAGE", "Image to start from.", true, false, Offer::Images}};
constexpr auto kRunMachine = [] {
  std::array<Option, kMachine.size() - 1> out{};  // the image is the argument
  for (size_t i = 0; i < out.size(); ++i) out.at(i) = kMachine.at(i + 1);
  return out;
}();
constexpr auto kRunOptions = joined(
    kStreams, kLimits, kPlace, kRunMachine, kNetwork,
    std::array{Option{0, "name", "", "NAME", "Name of the sandbox. Default: one is made up."},
               Option{0, "rm", "", "", "Accepted; the sandbox is always removed."}, kQuiet, kJson});
constexpr std::array<std::string_view, 3> kRunExamples = {
    "mvm run base -- python3 -c 'print(6 * 7)'", "mvm run base -it -- bash",
    "mvm run base --timeout 30s --json -- sh -c 'uname -a; id'"};

constexpr std::array kNamePositional = {
    Positional{"NAME", "The sandbox.", true, false, Offer::Sandboxes}};
constexpr auto kExecOptions =
    joined(kStreams, kLimits,
           std::array{Option{'d', "detach", "", "",
                             "Start the command and do not wait; its output is dropped."}},
           kPlace, std::array{kName, kJson});
constexpr std::array<std::string_view, 6> kExecExamples = {
    "mvm exec agent-sandbox -- python3 /work/agent.py",
    "mvm exec -it agent-sandbox bash",
    "mvm exec -i agent-sandbox -- tar -xf - -C /work <work.tar",
    "mvm exec agent-sandbox --timeout 30s -e DEBUG=1 -w /work -- make test",
    "mvm exec agent-sandbox --rlimit nofile=1024:2048 --memory-limit 256M -- ./build.sh",
    "mvm exec agent-sandbox --json -- id"};

constexpr auto kShellOptions = joined(kPlace, std::array{kName});
constexpr std::array<std::string_view, 2> kShellExamples = {"mvm shell agent-sandbox",
                                                            "mvm shell agent-sandbox -u nobody"};

constexpr std::array kCopyPositionals = {
    Positional{"SOURCE", "What to copy: a path here, or NAME:/path.", true, false, Offer::Files},
    Positional{"TARGET", "Where to: the other of the two.", true, false, Offer::Files}};
constexpr std::array kCopyOptions = {
    Option{'p', "parents", "", "", "Make missing folders above the target in the sandbox."},
    Option{'L', "follow-link", "", "", "Copy what a symbolic link in the sandbox points to."},
    Option{'u', "user", "", "USER", "Owner of what is written in the sandbox. Default: root."},
    kQuiet,
    kJson,
};
constexpr std::array<std::string_view, 3> kCopyExamples = {
    "mvm cp agent.py agent-sandbox:/work/", "mvm cp agent-sandbox:/work/out ./out",
    "mvm cp -p data agent-sandbox:/srv/input/data"};

// ---- files of a sandbox
// ---------------------------------------------------------------------------

constexpr Positional kPlacePositional{"NAME:PATH", "The sandbox and an absolute path in it."};
constexpr std::array kPlacePositionals = {kPlacePositional};
constexpr Option kRoot{0, "root", "", "DIR",
                       "Take PATH relative to this folder of the sandbox, and refuse it when "
                       "anything on the way (.., a link, a mount) leads out of there."};
constexpr Option kMode{0, "mode", "", "MODE", "Permissions, octal."};
constexpr Option kOwner{'u', "user", "", "USER", "Owner of what is made. Default: root."};

constexpr std::array kReadOptions = {
    Option{0, "offset", "", "SIZE", "Start there, such as 4096 or 4G. Default: 0."},
    Option{0, "length", "", "SIZE", "Read at most so much. Default: to the end."}, kRoot};
constexpr std::array<std::string_view, 2> kReadExamples = {
    "mvm fs read agent-sandbox:/etc/os-release",
    "mvm fs read agent-sandbox:/var/log/app.log --offset 1M --length 64K"};
constexpr std::array kWriteOptions = {
    Option{0, "offset", "", "SIZE", "Write into the file itself from there on."},
    Option{'a', "append", "", "", "Write to the end of the file itself."},
    Option{0, "new", "", "", "It is an error when the file exists."},
    Option{0, "limit", "", "SIZE", "It is an error when there is more than this."},
    Option{0, "sync", "", "", "Return when it is on the sandbox's disk."},
    kMode,
    kOwner,
    kRoot,
    kJson};
constexpr std::array<std::string_view, 3> kWriteExamples = {
    "mvm fs write agent-sandbox:/work/task.json <task.json",
    "mvm fs write agent-sandbox:/work/run.sh --mode 0755 <run.sh",
    "echo done | mvm fs write agent-sandbox:notes.txt --root /work --append"};
constexpr std::array kStatOptions = {
    Option{'L', "follow-link", "", "", "Look at what a symbolic link points to."}, kRoot, kJson};
constexpr std::array<std::string_view, 1> kStatExamples = {
    "mvm fs stat agent-sandbox:/etc/passwd --json"};
constexpr std::array kFileListOptions = {
    Option{'l', "long", "", "", "Type, mode, owner, size and time as well."},
    Option{0, "limit", "", "N", "At most so many entries."}, kRoot, kJson};
constexpr std::array<std::string_view, 2> kFileListExamples = {
    "mvm fs ls agent-sandbox:/work -l", "mvm fs ls agent-sandbox:/work --limit 100 --json"};
constexpr std::array kMakeDirectoryOptions = {
    Option{'p', "parents", "", "",
           "Make missing folders above it too; an existing one is no error."},
    kMode, kOwner, kRoot};
constexpr std::array<std::string_view, 1> kMakeDirectoryExamples = {
    "mvm fs mkdir -p agent-sandbox:/work/out/today"};
constexpr std::array kMovePositionals = {kPlacePositional,
                                         Positional{"TO", "The new path in the same sandbox."}};
constexpr std::array kMoveOptions = {
    Option{'n', "no-replace", "", "", "It is an error when TO exists."}, kRoot};
constexpr std::array<std::string_view, 1> kMoveExamples = {
    "mvm fs mv agent-sandbox:/work/new /work/current"};
constexpr std::array kFileRemoveOptions = {
    Option{'r', "recursive", "", "",
           "A folder with all in it; other file systems are not entered."},
    kRoot, kJson};
constexpr std::array<std::string_view, 1> kFileRemoveExamples = {
    "mvm fs rm -r agent-sandbox:/work/out"};
constexpr std::array kWatchOptions = {
    Option{0, "count", "", "N", "End after so many events."}, kRoot,
    Option{0, "json", "", "", "Print each event as a JSON document on a line of its own."}};
constexpr std::array<std::string_view, 2> kWatchExamples = {
    "mvm fs watch agent-sandbox:/work", "mvm fs watch agent-sandbox:/work/out --count 1 --json"};

constexpr std::array kLogsOptions = {
    Option{'f', "follow", "", "", "Go on until the sandbox ends."},
    Option{0, "egress", "", "", "What it wanted of the network, and what became of that."}, kName};
constexpr std::array<std::string_view, 3> kLogsExamples = {
    "mvm logs agent-sandbox", "mvm logs -f agent-sandbox", "mvm logs agent-sandbox --egress -f"};

// ---- sandboxes
// ------------------------------------------------------------------------------------

constexpr std::array kPsOptions = {
    Option{'a', "all", "", "", "Ended ones too."},
    Option{'q', "quiet", "", "", "Names only."},
    Option{0, "label", "", "KEY[=VALUE]", "Only those with this label.", true},
    kJson,
};
constexpr std::array<std::string_view, 3> kPsExamples = {"mvm ps", "mvm ps -a --label team=search",
                                                         "mvm ps --json"};

constexpr Option kJsonLine{0, "json", "", "", "Print it on one line."};
constexpr std::array kInspectOptions = {kName, kJsonLine};
constexpr std::array kImageInspectOptions = {kJsonLine};
constexpr std::array kStatsOptions = {kName, kJson};
constexpr std::array<std::string_view, 2> kStatsExamples = {"mvm stats agent-sandbox",
                                                            "mvm stats agent-sandbox --json"};
constexpr std::array<std::string_view, 1> kInspectExamples = {"mvm inspect agent-sandbox"};

constexpr std::array kNamesPositional = {
    Positional{"NAME", "The sandbox; may be several.", true, true, Offer::Sandboxes}};
constexpr std::array kDownOptions = {
    Option{0, "grace", "", "DURATION", "How long it may take to end by itself. Default: 10s."},
    Option{0, "kill", "", "", "Do not ask it, end it at once."},
    Option{0, "rm", "", "", "Remove it, with all it wrote, as well."},
    kName,
    kQuiet,
    kJson,
};
constexpr std::array<std::string_view, 3> kDownExamples = {
    "mvm down agent-sandbox", "mvm down agent-sandbox --rm", "mvm down a b c --grace 2s"};

constexpr std::array kRemoveOptions = {
    Option{'f', "force", "", "", "End it first when it runs; no error when there is none."},
    kName,
    kQuiet,
};
constexpr std::array<std::string_view, 2> kRemoveExamples = {"mvm rm agent-sandbox",
                                                             "mvm rm -f agent-sandbox"};

// ---- images
// ---------------------------------------------------------------------------------------

constexpr Option kPlatform{0, "platform", "", "OS/ARCH",
                           "OCI: the image for this platform. Default: the host's."};
constexpr Option kDropSetId{0, "drop-setid", "", "",
                            "Archives: files lose their set-user-ID and set-group-ID bits."};
constexpr std::array kImportPositionals = {
    Positional{"SOURCE",
               "A folder or a tar archive with a root file system, or an OCI image: a layout, an "
               "archive of one, or what docker save wrote.",
               true, false, Offer::Files},
    Positional{"NAME", "Name of the image. Default: made from the source's name.", false}};
constexpr std::array kImportOptions = {
    Option{0, "name", "", "NAME", "Name of the image, instead of the argument."},
    Option{0, "ref", "", "NAME", "OCI: the image of this name or tag, where there are several."},
    kPlatform,
    kDropSetId,
    kQuiet,
    kJson};
constexpr std::array<std::string_view, 3> kImportExamples = {
    "mvm image import ./rootfs base", "mvm image import rootfs.tar.gz",
    "docker save app:v1 >app.tar && mvm image import app.tar app:v1"};
constexpr std::array kPullPositionals = {
    Positional{"IMAGE", "[HOST/]PATH[:TAG][@sha256:DIGEST]; without a host it is docker.io's."}};
constexpr std::array kPullOptions = {
    Option{0, "name", "", "NAME",
           "Name of the image. Default: as it was asked for, with its host."},
    kPlatform, kDropSetId, kQuiet, kJson};
constexpr std::array<std::string_view, 3> kPullExamples = {
    "mvm image pull python:3.12", "mvm image pull ghcr.io/org/app:v1 --name app",
    "mvm image pull localhost:5000/app@sha256:0123…"};
constexpr std::array kTagPositionals = {
    Positional{"IMAGE", "Name or digest.", true, false, Offer::Images},
    Positional{"NAME", "Another name for it."}};
constexpr std::array<std::string_view, 1> kTagExamples = {"mvm image tag python:3.12 base"};
constexpr std::array kVerifyOptions = {kQuiet};
constexpr std::array<std::string_view, 1> kVerifyExamples = {"mvm image verify base"};
constexpr std::array kPruneOptions = {Option{'a', "all", "", "", "Also images that have a name."},
                                      Option{0, "dry-run", "", "", "Only say what would go."},
                                      kJson};
constexpr std::array<std::string_view, 2> kPruneExamples = {"mvm image prune --dry-run",
                                                            "mvm image prune --all"};
constexpr std::array kImagePositional = {
    Positional{"IMAGE", "Name or digest.", true, false, Offer::Images}};
constexpr std::array kImagesPositional = {
    Positional{"IMAGE", "Name or digest; may be several.", true, true, Offer::Images}};
constexpr std::array kImageListOptions = {Option{'q', "quiet", "", "", "Names only."}, kJson};
constexpr std::array<std::string_view, 1> kImageListExamples = {"mvm image ls"};
constexpr std::array<std::string_view, 1> kImageInspectExamples = {"mvm image inspect base"};
constexpr std::array kImageRemoveOptions = {
    Option{'f', "force", "", "", "Also when stopped sandboxes were made from it."}, kQuiet};
constexpr std::array<std::string_view, 1> kImageRemoveExamples = {"mvm image rm base"};

constexpr std::array kKernelSource = {
    Positional{"SOURCE", "A folder with bundle.json, the kernel's image and its modules.", true,
               false, Offer::Files}};
constexpr std::array kKernelImportOptions = {
    Option{0, "default", "", "", "Make it the kernel of sandboxes that name none."}, kQuiet, kJson};
constexpr std::array<std::string_view, 1> kKernelImportExamples = {
    "mvm kernel import ./tuned-6.1 --default"};
constexpr std::array<std::string_view, 1> kKernelListExamples = {"mvm kernel ls"};
constexpr std::array kKernelsPositional = {
    Positional{"KERNEL", "Name; may be several.", true, true}};
constexpr std::array kKernelRemoveOptions = {
    Option{'f', "force", "", "", "Also when sandboxes were made with it."}, kQuiet};
constexpr std::array<std::string_view, 1> kKernelRemoveExamples = {"mvm kernel rm tuned-6.1"};

// ---- audit
// ----------------------------------------------------------------------------------------

constexpr std::array kAuditPositional = {
    Positional{"NAME", "The sandbox, by name or id. Default: the daemon's own log.", false, false,
               Offer::Sandboxes}};
constexpr std::array kAuditAllPositional = {
    Positional{"NAME", "The sandbox, by name or id, or 'daemon'. Default: all logs.", false, false,
               Offer::Sandboxes}};
constexpr Option kAuditLines{0, "json", "", "", "Print the records as they are, one a line."};
constexpr Option kAuditKinds{
    0,   "kind", "", "KIND", "Only records of this kind, such as connect. May be given many times.",
    true};
constexpr std::array kAuditTailOptions = {
    Option{'f', "follow", "", "", "Go on until the log is closed."},
    Option{'n', "lines", "", "N", "So many of the last records first. Default: 20."}, kAuditKinds,
    kAuditLines};
constexpr std::array<std::string_view, 3> kAuditTailExamples = {
    "mvm audit tail", "mvm audit tail -f agent-sandbox", "mvm audit tail -n 100 --kind http web"};
constexpr std::array kAuditShowOptions = {kAuditKinds, kAuditLines};
constexpr std::array<std::string_view, 2> kAuditShowExamples = {
    "mvm audit show agent-sandbox", "mvm audit show --kind created --kind ended --json"};
constexpr std::array kAuditVerifyOptions = {
    Option{0, "key", "", "FILE", "The daemon's public key (PEM). Default: this host's.", false,
           false, Offer::Files},
    Option{0, "file", "", "FILE", "Check what `mvm audit export` wrote.", false, false,
           Offer::Files},
    kJson};
constexpr std::array<std::string_view, 3> kAuditVerifyExamples = {
    "mvm audit verify", "mvm audit verify agent-sandbox --json",
    "mvm audit verify --file web.jsonl --key host.pub"};
constexpr std::array kAuditExportOptions = {
    Option{0, "public-key", "", "", "Print the daemon's public key (PEM) instead."}};
constexpr std::array<std::string_view, 2> kAuditExportExamples = {
    "mvm audit export agent-sandbox >web.jsonl", "mvm audit export --public-key >host.pub"};
constexpr std::array kAuditRun = {
    Positional{"RUN", "Id of a command's run, as `mvm exec --json` prints it."}};
constexpr std::array kAuditWhyOptions = {kAuditLines};
constexpr std::array<std::string_view, 1> kAuditWhyExamples = {"mvm audit why run-4mzyx2kq5tda"};

// ---- mvm itself
// -----------------------------------------------------------------------------------

constexpr std::array kFilePositional = {
    Positional{"FILE", "The manifest. Default: mvm.toml.", false, false, Offer::Files}};
constexpr std::array kConfigOptions = {kJson};
constexpr std::array<std::string_view, 2> kValidateExamples = {"mvm config validate",
                                                               "mvm config validate box.toml"};
constexpr std::array<std::string_view, 2> kShowExamples = {"mvm config show",
                                                           "MVM_CPUS=4 mvm config show --json"};
constexpr std::array kScanPositional = {
    Positional{"FILE", "The file to look through.", true, false, Offer::Files}};
constexpr std::array<std::string_view, 2> kScanExamples = {"mvm policy scan notes.txt",
                                                           "mvm policy scan --json export.csv"};
constexpr std::array kDaemonOptions = {
    Option{0, "ready-fd", "", "FD", "Close this descriptor when serving.", false, true}};
constexpr std::array<std::string_view, 1> kDaemonExamples = {"mvm daemon"};
constexpr std::array<std::string_view, 1> kDaemonStatusExamples = {"mvm daemon status --json"};
constexpr std::array<std::string_view, 1> kDaemonStopExamples = {"mvm daemon stop"};
constexpr std::array kJsonOnly = {kJson};
constexpr std::array kExplainPositionals = {
    Positional{"REQUEST", "A URL, a host or an address; with a method in front, one request to it.",
               true, true}};
constexpr auto kExplainOptions = joined(std::array{kManifest}, kNetwork, std::array{kJson});
constexpr std::array<std::string_view, 3> kExplainExamples = {
    "mvm policy explain https://example.com",
    "mvm policy explain POST https://api.example.com/v1/items",
    "mvm policy explain --allow-host '*.example.com' --json https://cdn.example.com:8443/"};
constexpr std::array kDoctorOptions = {
    Option{0, "only", "", "CHECK", "Only this check, such as kvm. May be given many times.", true},
    kJson};
constexpr std::array<std::string_view, 3> kDoctorExamples = {"mvm doctor", "mvm doctor --only kvm",
                                                             "mvm doctor --json"};
constexpr std::array kShellPositional = {
    Positional{"SHELL", "bash, zsh or fish.", true, false, Offer::Shells}};
constexpr std::array<std::string_view, 3> kCompletionExamples = {
    "source <(mvm completion bash)", "mvm completion zsh >\"${fpath[1]}/_mvm\"",
    "mvm completion fish >~/.config/fish/completions/mvm.fish"};
constexpr std::array<std::string_view, 1> kVersionExamples = {"mvm version"};
constexpr std::array kHelpPositionals = {
    Positional{"COMMAND", "The command, in one or two words.", false, true, Offer::Commands}};
constexpr std::array kHelpOptions = {
    Option{0, "markdown", "", "", "The whole reference as Markdown.", false, true}};
constexpr std::array<std::string_view, 2> kHelpExamples = {"mvm help", "mvm help image import"};

constexpr std::string_view kSandboxes = "Sandboxes";
constexpr std::string_view kFiles = "Files of a sandbox";
constexpr std::string_view kImages = "Images and kernels";
constexpr std::string_view kAudit = "Audit";
constexpr std::string_view kItself = "mvm itself";

constexpr std::array kCommands = {
    Command{Verb::Init, "init", "", kSandboxes, "Write an mvm.toml for this folder",
            "Writes ./mvm.toml with the settings that most people change. It is an error when the "
            "file exists already.",
            kInitPositionals, kInitOptions, "", false, kInitExamples},
    Command{Verb::Up, "up", "", kSandboxes, "Start a sandbox",
            "Starts the sandbox and returns when it can run commands. Settings come from the "
            "flags, else from MVM_* variables, else from ./mvm.toml when there is one, else they "
            "are the defaults.\n\n"
            "A stopped sandbox of the name is started again with the disk it had; of a running "
            "one nothing changes.\n\n"
            "Only so many sandboxes start at once; the others wait for their turn, and `mvm ps` "
            "shows them as queued.",
            kUpPositionals, kUpOptions, "", false, kUpExamples},
    Command{Verb::Run, "run", "", kSandboxes, "Run one command in a new sandbox and remove it",
            "Boots a sandbox from IMAGE, runs the command, removes the sandbox with all it wrote, "
            "and exits as the command did. Without a command it runs what the image names: its "
            "entrypoint and command. When the sandbox ended first: with 124 by a limit of "
            "time, 137 for want of memory or because somebody killed it, else 125.",
            kRunPositionals, kRunOptions, "[--] [COMMAND] [ARGUMENT]...", false, kRunExamples},
    Command{Verb::Exec, "exec", "", kSandboxes, "Run a command in a running sandbox",
            "Runs the command as it is given: no shell takes part. Flags of mvm come before the "
            "command; what follows it is the command's own. Ctrl-C and SIGTERM go to the command; "
            "the second one gives up and ends it.\n\n"
            "The call ends when the command has ended, whatever standard input or a background "
            "process still holds open.",
            kNamePositional, kExecOptions, "[--] COMMAND [ARGUMENT]...", true, kExecExamples},
    Command{Verb::Shell, "shell", "", kSandboxes, "Open a shell in a running sandbox",
            "Starts bash where the sandbox has it, else sh, as a login shell. With a terminal "
            "when there is one here, else reading commands from standard input.",
            kNamePositional, kShellOptions, "", false, kShellExamples},
    Command{Verb::Copy, "cp", "", kSandboxes, "Copy files and folders to or from a sandbox",
            "One of the two is a path here, the other NAME:/path in a running sandbox. When the "
            "target is an existing folder, or ends in '/', the copy is put into it. Modes and "
            "times are kept, symbolic links are copied as links. Devices, pipes and sockets are "
            "left out. A path here with ':' in it is written with './' in front.",
            kCopyPositionals, kCopyOptions, "", false, kCopyExamples},
    Command{Verb::Logs, "logs", "", kSandboxes, "Print a sandbox's console",
            "Prints what the sandbox's kernel and first process wrote to the console. It is there "
            "after the sandbox has ended as well.\n\n"
            "With --egress, prints the decisions about its network traffic instead, from its audit "
            "log, also of a sandbox that was removed.",
            kNamePositional, kLogsOptions, "", false, kLogsExamples},
    Command{Verb::Ps,
            "ps",
            "ls",
            kSandboxes,
            "List sandboxes",
            "Lists the running sandboxes.",
            {},
            kPsOptions,
            "",
            false,
            kPsExamples},
    Command{Verb::Inspect, "inspect", "", kSandboxes, "Print all that is known of a sandbox",
            "Prints a JSON document. Accepts a name or an id.", kNamePositional, kInspectOptions,
            "", false, kInspectExamples},
    Command{
        Verb::Stats, "stats", "", kSandboxes, "Print what a running sandbox uses",
        "Asks the sandbox itself for its memory, processor time, tasks and disk. It is what the "
        "sandbox says: good for a look, not for a bill.",
        kNamePositional, kStatsOptions, "", false, kStatsExamples},
    Command{Verb::Down, "down", "stop", kSandboxes, "Stop sandboxes",
            "Asks the sandbox to end, and ends it when it has not after the grace time. Its disk "
            "stays: `mvm up NAME` starts it again. Stopping a stopped sandbox is no error.",
            kNamesPositional, kDownOptions, "", false, kDownExamples},
    Command{Verb::Remove, "rm", "", kSandboxes, "Remove stopped sandboxes",
            "Removes the sandbox with all it wrote. A running one is an error unless forced.",
            kNamesPositional, kRemoveOptions, "", false, kRemoveExamples},

    Command{Verb::FileRead, "fs read", "cat", kFiles, "Print a file of a sandbox",
            "Writes the content of a regular file to standard output.", kPlacePositionals,
            kReadOptions, "", false, kReadExamples},
    Command{Verb::FileWrite, "fs write", "", kFiles, "Write standard input to a file of a sandbox",
            "Replaces the file as a whole: whoever reads it sees the old content or the new, and "
            "when this is interrupted the old one stays. Mode and owner of an existing file are "
            "kept. With --offset or --append the file itself is written to.",
            kPlacePositionals, kWriteOptions, "", false, kWriteExamples},
    Command{Verb::FileStat, "fs stat", "", kFiles, "Print what a file of a sandbox is",
            "Prints type, size, mode, owner and time. 'allocated' is what it takes on disk.",
            kPlacePositionals, kStatOptions, "", false, kStatExamples},
    Command{Verb::FileList, "fs ls", "list", kFiles, "List a folder of a sandbox",
            "Prints the entries in the order in which the file system has them, as they come.",
            kPlacePositionals, kFileListOptions, "", false, kFileListExamples},
    Command{Verb::FileMakeDirectory, "fs mkdir", "", kFiles, "Make a folder in a sandbox",
            "Makes a folder with mode 0755 unless --mode says otherwise.", kPlacePositionals,
            kMakeDirectoryOptions, "", false, kMakeDirectoryExamples},
    Command{Verb::FileMove, "fs mv", "", kFiles, "Rename a file or folder in a sandbox",
            "Renames as rename(2) does: at once, within one file system; an existing file TO is "
            "replaced.",
            kMovePositionals, kMoveOptions, "", false, kMoveExamples},
    Command{Verb::FileRemove, "fs rm", "", kFiles, "Remove a file or folder in a sandbox",
            "Removes a file, a link or an empty folder; symbolic links are never followed.",
            kPlacePositionals, kFileRemoveOptions, "", false, kFileRemoveExamples},
    Command{Verb::FileWatch, "fs watch", "", kFiles,
            "Print changes of a file or folder as they happen",
            "Prints one event a line: created, modified, attributes, removed, moved_from, "
            "moved_to, closed (after writing), each with the entry's name. 'ready' comes first: "
            "what happens from then on is seen. 'overflow' says that events were lost. Ends when "
            "the watched thing is gone.",
            kPlacePositionals, kWatchOptions, "", false, kWatchExamples},

    Command{Verb::ImageImport, "image import", "", kImages,
            "Make an image from a folder, a tar or an OCI image",
            "Reads a root file system and keeps it as an image. The source is not changed and not "
            "needed afterwards. Archives may be compressed with gzip, xz, bzip2 or zstd. OCI "
            "images are told by their content; every digest in them is verified.",
            kImportPositionals, kImportOptions, "", false, kImportExamples},
    Command{Verb::ImagePull, "image pull", "", kImages, "Get an image from a registry",
            "Downloads an image, verifies it and keeps it. Layers that are here are not downloaded "
            "again. Passwords come from what docker or podman login has kept. `mvm up` and `mvm "
            "run` pull what names a registry (with a '/' or a digest) and is not here.",
            kPullPositionals, kPullOptions, "", false, kPullExamples},
    Command{Verb::ImageList,
            "image ls",
            "list",
            kImages,
            "List images",
            "Lists the images.",
            {},
            kImageListOptions,
            "",
            false,
            kImageListExamples},
    Command{Verb::ImageInspect, "image inspect", "", kImages, "Print all that is known of an image",
            "Prints a JSON document.", kImagePositional, kImageInspectOptions, "", false,
            kImageInspectExamples},
    Command{Verb::ImageRemove, "image rm", "", kImages, "Remove images",
            "An image that a sandbox was made from is kept; the error names the sandbox.",
            kImagesPositional, kImageRemoveOptions, "", false, kImageRemoveExamples},
    Command{Verb::ImageTag,
            "image tag",
            "",
            kImages,
            "Give an image another name",
            "A name that another image has is taken from it.",
            kTagPositionals,
            {},
            "",
            false,
            kTagExamples},
    Command{Verb::ImageVerify, "image verify", "", kImages, "Check that images are whole",
            "Reads each image and compares it with its digest.", kImagesPositional, kVerifyOptions,
            "", false, kVerifyExamples},
    Command{Verb::ImagePrune,
            "image prune",
            "",
            kImages,
            "Remove images that nothing uses",
            "Removes images without a name that no sandbox was made from, and layers of earlier "
            "pulls that belong to no image any more.",
            {},
            kPruneOptions,
            "",
            false,
            kPruneExamples},
    Command{
        Verb::KernelImport, "kernel import", "", kImages, "Install a guest kernel",
        "Copies a kernel bundle, in place of an installed one of its name. The first one is the "
        "default.",
        kKernelSource, kKernelImportOptions, "", false, kKernelImportExamples},
    Command{Verb::KernelList,
            "kernel ls",
            "list",
            kImages,
            "List guest kernels",
            "Lists the installed kernels. The default one is marked.",
            {},
            kImageListOptions,
            "",
            false,
            kKernelListExamples},
    Command{Verb::KernelRemove, "kernel rm", "", kImages, "Remove guest kernels",
            "A kernel that a sandbox was made with is kept; the error names the sandbox.",
            kKernelsPositional, kKernelRemoveOptions, "", false, kKernelRemoveExamples},

    Command{Verb::AuditTail, "audit tail", "", kAudit, "Print the last audit records",
            "Prints the last records of a sandbox's audit log, or of the daemon's: when, what, and "
            "for traffic where to, allowed or not, and why.",
            kAuditPositional, kAuditTailOptions, "", false, kAuditTailExamples},
    Command{Verb::AuditShow, "audit show", "", kAudit, "Print all audit records of a log",
            "Prints every record, also of a sandbox that was removed: its log is kept for 30 days "
            "after its last record.",
            kAuditPositional, kAuditShowOptions, "", false, kAuditShowExamples},
    Command{Verb::AuditVerify, "audit verify", "", kAudit, "Check that audit logs are as written",
            "Checks each record against the one before it, and each checkpoint against its "
            "signature; then each sandbox's log against what the daemon's log says of its end. "
            "Names the first record that is not as it was written, and what was done to it. Exits "
            "with 1 when there is one.",
            kAuditAllPositional, kAuditVerifyOptions, "", false, kAuditVerifyExamples},
    Command{Verb::AuditExport, "audit export", "", kAudit, "Write an audit log to standard output",
            "Writes all records as they are, one a line. `mvm audit verify --file` checks them "
            "anywhere, with the public key of this host.",
            kAuditPositional, kAuditExportOptions, "", false, kAuditExportExamples},
    Command{Verb::AuditWhy, "audit why", "", kAudit,
            "Print what a command's run did on the network",
            "Prints the run's beginning and end, and the decisions about the sandbox's traffic in "
            "between. When other commands ran at the same time, it says so: the network does not "
            "tell whose traffic it was.",
            kAuditRun, kAuditWhyOptions, "", false, kAuditWhyExamples},

    Command{
        Verb::PolicyExplain, "policy explain", "", kItself,
        "Say whether a sandbox may make a request, and why",
        "Asks the rules that `up` would use here, from flags, variables and mvm.toml, without "
        "starting anything. The function that answers is the one that enforces. Names are not "
        "resolved: what a name leads to is judged when a sandbox asks for it. Exits with 1 when "
        "it is not allowed.",
        kExplainPositionals, kExplainOptions, "", false, kExplainExamples},
    Command{Verb::PolicyScan, "policy scan", "", kItself,
            "Find personal data and secrets in a file",
            "Runs every detector on the file and prints the class and place (line and column, in "
            "bytes) of each finding, and how many there are of each class; never a value.",
            kScanPositional, kConfigOptions, "", false, kScanExamples},
    Command{Verb::Doctor,
            "doctor",
            "",
            kItself,
            "Check whether this host can run sandboxes",
            "Checks the host by trying, says what is missing and what to do about it. Exits with 1 "
            "when something needed is missing.",
            {},
            kDoctorOptions,
            "",
            false,
            kDoctorExamples},
    Command{Verb::ConfigValidate, "config validate", "", kItself, "Check an mvm.toml",
            "Prints every complaint with its line and column. Exits with 1 when there is one.",
            kFilePositional, kConfigOptions, "", false, kValidateExamples},
    Command{Verb::ConfigShow, "config show", "", kItself, "Print the settings that `up` would use",
            "Prints each setting with the place it came from, as a valid mvm.toml.",
            kFilePositional, kConfigOptions, "", false, kShowExamples},
    Command{Verb::Daemon,
            "daemon",
            "",
            kItself,
            "Serve in the foreground",
            "The other commands start the daemon when they need it; this runs it under a service "
            "manager or to watch it. Sandboxes go on when it ends, and it finds them again.",
            {},
            kDaemonOptions,
            "",
            false,
            kDaemonExamples},
    Command{Verb::DaemonStatus,
            "daemon status",
            "",
            kItself,
            "Say whether the daemon runs",
            "Exits with 1 when it does not. Does not start it.",
            {},
            kJsonOnly,
            "",
            false,
            kDaemonStatusExamples},
    Command{Verb::DaemonStop,
            "daemon stop",
            "",
            kItself,
            "End the daemon; sandboxes go on",
            "The next command that needs it starts it again.",
            {},
            {},
            "",
            false,
            kDaemonStopExamples},
    Command{Verb::Completion,
            "completion",
            "",
            kItself,
            "Print a shell completion script",
            "The script completes commands, flags, and the names of sandboxes and images.",
            kShellPositional,
            {},
            "",
            false,
            kCompletionExamples},
    Command{Verb::Version,
            "version",
            "",
            kItself,
            "Print the version",
            "Prints the version.",
            {},
            kJsonOnly,
            "",
            false,
            kVersionExamples},
    Command{Verb::Help, "help", "", kItself, "Explain a command", "Prints what `--help` prints.",
            kHelpPositionals, kHelpOptions, "", false, kHelpExamples},
};

std::string_view first_word(std::string_view name) { return name.substr(0, name.find(' ')); }
std::string_view second_word(std::string_view name) {
  const size_t blank = name.find(' ');
  return blank == name.npos ? std::string_view() : name.substr(blank + 1);
}

}

std::span<const Command> commands() { return kCommands; }

const Command* find_command(Verb verb) {
  for (const Command& command : kCommands)
    if (command.verb == verb) return &command;
  return nullptr;
}

const Command* find_command(std::string_view first, std::string_view second) {
  for (const Command& command : kCommands) {
    const auto one = first_word(command.name);
    const auto two = second_word(command.name);
    if (two.empty() ? second.empty() && (first == one || (!first.empty() && first == command.alias))
                    : first == one && !second.empty() && (second == two || second == command.alias))
      return &command;
  }
  return nullptr;
}

bool is_group(std::string_view word) {
  for (const Command& command : kCommands)
    if (!second_word(command.name).empty() && first_word(command.name) == word) return true;
  return false;
}

}
