// The table. The order is the order of help and of docs/cli.md.

#include <array>

#include "mvm/cli/command.h"

#include "ai_flags.h"
#include "build_flags.h"
#include "command_flags.h"
#include "policy_flags.h"

namespace mvm::cli {
namespace {

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
    Command{Verb::Console, "console", "", kSandboxes, "Sit at a running sandbox's console",
            "Shows what appears on the console from now on, and types into it; what came before is "
            "in `mvm logs`, as all of it will be. Where no program reads the console, Enter starts "
            "a shell of root's there, which goes on when you leave. Ctrl-] leaves; the sandbox "
            "goes on. One sits there at a time: who comes later takes the place. The console has "
            "the size of the terminal here.\n\n"
            "For work in a sandbox `mvm shell` is the better place, and there may be many. This is "
            "for the kernel's own words, for programs that are made for a console, and for a shell "
            "that outlives its terminal. A sealed sandbox has none.",
            kNamePositional, kConsoleOptions, "", false, kConsoleExamples},
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
    Command{Verb::Port, "port", "", kSandboxes, "Lead ports of this host to a sandbox",
            "Publishes TCP ports: a connection to port HOST of this host goes to port GUEST of the "
            "sandbox's own loopback (127.0.0.1, else ::1), whether the sandbox has a network or "
            "not. Other machines get there only when an address of this host stands in front. "
            "Without PORT and --remove it lists them.\n\n"
            "Published ports are the sandbox's: they end when it ends, and are there again at its "
            "next start.",
            kPortPositionals, kPortOptions, "", false, kPortExamples},
    Command{Verb::Mcp, "mcp", "", kSandboxes,
            "Let a model use a sandbox, by the Model Context Protocol",
            "Serves the tools run, read_file, write_file, list_files and network_refusals to one "
            "client on standard input and output: a line a message, no port. A program that a "
            "model works with starts it. The sandbox and what it may do are yours to decide: "
            "the tools act in it alone, and can neither start, change nor end it.\n\n"
            "What commands print and files hold is redacted as by `mvm exec --redact` where the "
            "sandbox's protection of personal data is on. The end of standard input ends the "
            "server, and the commands that it runs.",
            kNamePositional, kMcpOptions, "", false, kMcpExamples},
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
            "what happens from then on is seen. 'overflow' says that events were lost. Folders "
            "below a watched one are not: watch them too. Ends when the watched thing is gone.",
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
    Command{Verb::ImageExport, "image export", "", kImages, "Write an image to a file or a folder",
            "Writes the files of an image as a tar archive, or the image as an OCI image of one "
            "layer: as an archive, which docker load and podman load take, or as a layout, which "
            "is a folder. Owners, modes, times, links, holes and extended attributes are kept; an "
            "OCI image also has what is run in it. The same image gives the same bytes.",
            kExportPositionals, kExportOptions, "", false, kExportExamples},
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
    Command{Verb::Build, "build", "", kImages, "Build an image from a Nix flake",
            "Evaluates and builds a package of a flake that mvm.lib.mkGuest has made, in the "
            "builder: a sandbox with Nix, which needs not be on this host. Of a git repository "
            "the tracked files are taken, as they are now. What was built before from the same is "
            "not built again.\n\n"
            "Builds wait for each other. Ctrl-C ends the build. Exits with 1 when the flake does "
            "not build.",
            kBuildPositionals, kBuildOptions, "", false, kBuildExamples},
    Command{Verb::BuilderStatus,
            "builder status",
            "",
            kImages,
            "Say what the builder is and takes",
            "Prints the state of the sandbox in which flakes are built, and what its disk takes "
            "here.",
            {},
            kJsonOnly,
            "",
            false,
            kBuilderStatusExamples},
    Command{Verb::BuilderShell,
            "builder shell",
            "",
            kImages,
            "Open a shell in the builder",
            "For a look at its store and logs; starts the builder where it does not run.",
            {},
            {},
            "",
            false,
            kBuilderShellExamples},
    Command{Verb::BuilderCollect,
            "builder gc",
            "",
            kImages,
            "Remove from the builder's store what no image was built from last",
            "Runs Nix's garbage collection. The last build of each name is kept, with what it "
            "needs.",
            {},
            kBuilderOptions,
            "",
            false,
            kBuilderCollectExamples},
    Command{Verb::BuilderReset,
            "builder reset",
            "",
            kImages,
            "Remove the builder with its store",
            "The next build makes it anew, with the settings of that time. Images stay.",
            {},
            kBuilderOptions,
            "",
            false,
            kBuilderResetExamples},
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

    Command{Verb::AiUsage, "ai usage", "", kAi, "Print what sandboxes used of AI providers",
            "Prints tokens, requests and cost against the budget since its last reset, and what "
            "each model used since the sandbox was made. Only of sandboxes whose use is metered: "
            "`mvm up --ai-metering` or `--ai-token-budget`.",
            kAiUsagePositional, kAiUsageOptions, "", false, kAiUsageExamples},
    Command{Verb::AiBudget, "ai budget", "", kAi, "Set a sandbox's budget, or begin it anew",
            "`set` changes the limits that its flags name, of a running sandbox from its next "
            "request on; they hold for later starts of it too. `reset` counts from zero again; "
            "what `mvm ai usage` shows of models stays.",
            kAiBudgetPositionals, kAiBudgetOptions, "", false, kAiBudgetExamples},
    Command{Verb::Metrics,
            "metrics",
            "",
            kAi,
            "Print figures for machines",
            "Prints figures of all sandboxes in the text format of Prometheus: their states, their "
            "traffic, what they used of AI providers. `mvm daemon --metrics-listen 127.0.0.1:PORT` "
            "serves them as http://127.0.0.1:PORT/metrics.",
            {},
            kMetricsOptions,
            "",
            false,
            kMetricsExamples},

    Command{
        Verb::SecretSet, "secret set", "", kSecretsGroup, "Keep a secret for sandboxes to use",
        "Keeps a value, or where it is, encrypted on this host. The value is read from standard "
        "input, or asked for on the terminal without showing it; never given as an argument. "
        "Sandboxes never get it: see `--secret` of `mvm up`.",
        kSecretPositional, kSecretSetOptions, "", false, kSecretSetExamples},
    Command{Verb::SecretList,
            "secret ls",
            "",
            kSecretsGroup,
            "List stored secrets",
            "Lists their names and when they were set; never a value.",
            {},
            kSecretListOptions,
            "",
            false,
            kSecretListExamples},
    Command{Verb::SecretRemove, "secret rm", "", kSecretsGroup, "Forget stored secrets",
            "Sandboxes that run keep what they were started with.", kSecretsPositional,
            kSecretRemoveOptions, "", false, kSecretRemoveExamples},
    Command{Verb::SecretTest, "secret test", "", kSecretsGroup,
            "Say whether a secret's value can be found and used",
            "Looks the value up as `mvm up` would here, and says from where it comes and how long "
            "it is; never the value. Exits with 1 when there is none, or it cannot be used.",
            kSecretPositional, kSecretTestOptions, "", false, kSecretTestExamples},

    Command{
        Verb::PolicyExplain, "policy explain", "", kPolicy,
        "Say whether a sandbox may make a request, and why",
        "Asks the rules that `up` would use here, from flags, variables and mvm.toml, without "
        "starting anything. The function that answers is the one that enforces. Names are not "
        "resolved: what a name leads to is judged when a sandbox asks for it. Exits with 1 when "
        "it is not allowed.",
        kExplainPositionals, kExplainOptions, "", false, kExplainExamples},
    Command{Verb::PolicyAllow, "policy allow", "", kPolicy,
            "Let a running sandbox reach something more",
            "Adds rules to a running sandbox's: hosts, ranges of addresses, or endpoints, as the "
            "flags of `up` spell them. They hold from the next connection on, go before the rules "
            "that it was made with, and are forgotten when it ends; put them into mvm.toml to keep "
            "them (`mvm policy suggest` writes the lines). Each is recorded in the audit log.\n\n"
            "A host as a whole is admitted as it is, whatever its routes say. An endpoint takes a "
            "host whose requests were judged from the start: the sandbox's certificate authority "
            "is for those alone.",
            kRulesPositionals, kAllowOptions, "", false, kAllowExamples},
    Command{Verb::PolicyDeny, "policy deny", "", kPolicy,
            "Keep a running sandbox from something, or deny a question",
            "Adds rules that go before all others, also before those of `policy allow`; without a "
            "port, a host is denied at all of them. They hold from the next connection on (what is "
            "open stays open; its next request is judged), and are forgotten when the sandbox "
            "ends. Each is recorded in the audit log.\n\n"
            "With the id of a question (`mvm policy pending`) instead of a name, denies that.",
            kDenyPositionals, kDenyOptions, "", false, kDenyExamples},
    Command{Verb::PolicyList, "policy ls", "list", kPolicy, "List a running sandbox's rules",
            "Lists the rules that were added since it started; with --effective all of them, in "
            "the order in which they are asked: the first that matches decides.",
            kNamePositional, kPolicyListOptions, "", false, kPolicyListExamples},
    Command{Verb::PolicySuggest, "policy suggest", "", kPolicy,
            "Write the rules that a sandbox wanted",
            "Prints lines for mvm.toml that admit what the sandbox was refused, and what mode "
            "\"audit\" let through although no rule admits it: each once, by the narrowest rule. "
            "Read them before you use them. They come from the audit log, so it works for ended "
            "and removed sandboxes too.",
            kNamePositional, kSuggestOptions, "", false, kSuggestExamples},
    Command{
        Verb::PolicyPending, "policy pending", "", kPolicy, "List what waits for your answer",
        "Lists connections and requests that a rule leaves to a person (outcome \"ask\"), of one "
        "sandbox or of all. Equal ones are one. What nobody answers in time is refused.",
        kPendingPositionals, kPendingOptions, "", false, kPendingExamples},
    Command{Verb::PolicyApprove, "policy approve", "", kPolicy, "Let what waits go on",
            "Answers questions with yes; `mvm policy deny ID` says no. Each answer is recorded in "
            "the audit log.",
            kApprovePositionals, kApproveOptions, "", false, kApproveExamples},
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
            "manager or to watch it. Sandboxes go on when it ends, and it finds them again.\n\n"
            "After a start it keeps the processes of one more sandbox ready, which nobody has "
            "asked for yet and the next one is made of. MVM_DAEMON_SPARE says how long (2m; 0: "
            "none), MVM_DAEMON_IDLE when it ends for want of work (10m; 0: never).",
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
