//! Every call of the management API, declared once.
//!
//! The table is a macro that hands itself to another one: [`Call`] is implemented from it here, the HTTP door makes its routes
//! from it, and so does the page of reference. Nothing else lists calls. Types stand in the file of their noun or service; a few
//! fields that only one call needs may stand below the table.

use super::*;

/// Hands the table to the macro `$then`. An entry is:
///
/// `Call => Reply, "name", Audience, who carries it out, effect, [fields that the audit log names];`
///
/// with `, pending |reply| …` before the semicolon where a reply can be waited for.
#[macro_export]
macro_rules! for_each_call {
    ($then:ident) => {
        $then! {
            // Names
            Stat => FileInfo, "stat", People, Head, Reads, ["path"];
            GetEntry => Entry, "get_entry", People, Head, Reads, ["path"];
            List => Listing, "list", People, Head, Reads, ["path"];
            Mkdir => Entry, "mkdir", People, Head, Changes, ["path", "mode"];
            Remove => Removed, "remove", People, Head, Changes, ["path"];
            RemoveDirectory => Done, "remove_directory", People, Head, Changes, ["path"];
            RemoveEntry => Done, "remove_entry", People, Head, Changes, ["path"];
            Rename => Done, "rename", People, Head, Changes, ["from"];
            SetMode => Done, "set_mode", People, Head, Changes, ["path", "mode"];
            SetTime => Done, "set_time", People, Head, Changes, ["path"];
            SetOwner => Done, "set_owner", People, Head, Changes, ["path"];
            Archive => PathOutcomes, "archive", People, Head, Changes, ["paths"];
            Stage => PathOutcomes, "stage", People, Head, Changes, ["paths"];
            ExplainStage => PathOutcomes, "explain_stage", People, Head, Reads, ["paths"];
            Evict => PathOutcomes, "evict", People, Head, Changes, ["paths"];
            Release => PathOutcomes, "release", People, Head, Changes, ["paths", "user"];
            CancelRequests => PathOutcomes, "cancel_requests", People, Head, Changes, ["paths"];
            AwaitAny => PathOutcomes, "await_any", People, Head, Reads, ["paths"],
                pending |reply| { reply.files.iter().all(|file| file.waits.is_some()) };
            Await => PathOutcomes, "await", People, Head, Reads, ["paths"],
                pending |reply| { reply.files.iter().any(|file| file.waits.is_some()) && reply.files.iter().all(|file| file.failure.is_none()) };
            SubmitStageRequest => StageRequestSubmitted, "submit_stage_request", People, Head, Changes, [];
            GetStageRequest => StageRequestInfo, "get_stage_request", People, Head, Reads, ["id"],
                pending |reply| reply.completed.is_none();
            CancelStageFiles => Done, "cancel_stage_files", People, Head, Changes, ["id"];
            DeleteStageRequest => Done, "delete_stage_request", People, Head, Changes, ["id"];
            ReleaseStageFiles => Done, "release_stage_files", People, Head, Changes, ["id"];
            GetLocalities => Localities, "get_localities", People, Head, Reads, [];
            GetAttributes => Attributes, "get_attributes", People, Head, Reads, ["path"];
            SetAttributes => Done, "set_attributes", People, Head, Changes, ["path"];
            SetGrant => Done, "set_grant", People, Head, Changes, ["path", "subject", "rights"];
            GetGrants => GrantList, "get_grants", People, Head, Reads, ["path"];
            SetLayout => Done, "set_layout", People, Head, Changes, ["path", "rule"];
            GetLayout => LayoutInfo, "get_layout", People, Head, Reads, ["path"];
            SetStorageClass => Done, "set_storage_class", People, Head, Changes, ["path", "class"];
            GetStorageClass => StorageClassInfo, "get_storage_class", People, Head, Reads, ["path"];
            GetTrash => Trash, "get_trash", People, Head, Reads, ["path"];
            RestoreTrash => TrashRestored, "restore_trash", People, Head, Changes, ["path", "id"];
            EmptyTrash => TrashEmptied, "empty_trash", People, Head, Changes, ["path"];
            StartAdoption => AdoptionStarted, "start_adoption", People, Head, Changes, ["path", "partition", "directory"];
            StopAdoption => Done, "stop_adoption", People, Head, Changes, ["partition"];
            GetAdoptions => Adoptions, "adoptions", People, Head, Reads, [];
            GetLeftAlone => AllLeftAlone, "left_alone", People, Head, Reads, ["partition"];
            NextAdoption => AdoptionOrders, "next_adoption", Disk, Head, Changes, ["partition"],
                pending |reply| reply.order.is_none();
            BeginAdopted => AdoptionPlaces, "begin_adopted", Disk, Head, Changes, ["partition"];
            EndAdopted => AdoptedEnds, "end_adopted", Disk, Head, Changes, ["partition", "files"];
            WithdrawAdopted => Done, "withdraw_adopted", Disk, Head, Changes, ["partition"];
            ReportAdoption => AdoptionGoesOn, "report_adoption", Disk, Head, Changes, ["partition"];
            // Pools and disk servers
            RegisterPartition => Done, "register_partition", Disk, Head, Changes, ["pool", "partition"];
            ReportSpace => SpaceReported, "report_space", Disk, Head, Changes, ["partition"];
            GetSpace => Space, "get_space", Mounts, Head, Reads, [];
            NextRemovals => Removals, "next_removals", Disk, Head, Changes, ["partition"],
                pending |reply| reply.objects.is_empty();
            ObjectsRemoved => Done, "objects_removed", Disk, Head, Changes, ["partition"];
            OpenRead => ReadGrant, "open_read", Rooms, Head, Reads, ["path"],
                pending |reply| matches!(reply, ReadGrant::Recalling { .. });
            GetPieces => Pieces, "get_pieces", Disk, Head, Reads, [];
            ReportDamage => Done, "report_damage", Disk, Head, Changes, [];
            ReportMissing => Done, "report_missing", Disk, Head, Changes, ["partition"];
            OpenWrite => WriteGrant, "open_write", Rooms, Head, Changes, ["path", "mode"];
            BeginWrite => WriteGrant, "begin_write", Disk, Head, Changes, [];
            FreeSpace => Done, "free_space", Disk, Head, Changes, ["bytes"];
            CommitWrite => Done, "commit_write", Disk, Head, Changes, [];
            AbandonWrite => Done, "abandon_write", Disk, Head, Changes, [];
            ReportUse => Done, "report_use", Disk, Head, Changes, [];
            SetPool => Done, "set_pool", People, Head, Changes, ["pool"];
            SetPartition => Done, "set_partition", People, Head, Changes, ["state", "partition"];
            Drain => Drained, "drain", People, Head, Changes, ["host"];
            ResizePartition => Done, "resize_partition", People, Head, Changes, ["partition", "size_max_bytes"];
            MovePartition => Done, "move_partition", People, Head, Changes, ["pool", "partition"];
            GetPools => Pools, "get_pools", People, Head, Reads, [];
            CollectPool => Collected, "collect_pool", People, Head, Changes, ["from", "pool"],
                pending |reply| reply.is_looking;
            GetCollectable => Collected, "get_collectable", People, Head, Reads, ["from", "pool"],
                pending |reply| reply.is_looking;
            PlaceMirrors => Mirrors, "place_mirrors", Disk, Head, Changes, [];
            NextCopies => CopyOrders, "next_copies", Disk, Head, Changes, ["partition"],
                pending |reply| reply.orders.is_empty();
            CopyEnded => Done, "copy_ended", Disk, Head, Changes, [];
            ReportObjects => Done, "report_objects", Disk, Head, Changes, ["partition"];
            RunMaintenance => MaintenanceDone, "run_maintenance", Rooms, Head, Changes, [];
            AvoidServers => Avoided, "avoid_servers", Rooms, Head, Changes, ["path"];
            Allocate => Allocation, "allocate", People, Head, Changes, ["path", "mode", "pool"];
            StartScan => Done, "start_scan", People, Head, Changes, ["partition"];
            StopScan => Done, "stop_scan", People, Head, Changes, ["partition"];
            ResumeScan => Done, "resume_scan", People, Head, Changes, ["partition"];
            RepairScan => Done, "repair_scan", People, Head, Changes, ["partition"];
            GetScans => Scans, "scans", People, Head, Reads, [];
            GetFindings => Findings, "findings", People, Head, Reads, ["partition"];
            NextScan => ScanOrders, "next_scan", Disk, Head, Changes, ["partition"],
                pending |reply| reply.order.is_none();
            AskObjects => KnownObjects, "ask_objects", Disk, Head, Reads, ["partition"];
            CatalogueWindow => Window, "catalogue_window", Disk, Head, Reads, ["partition"];
            ReportScan => ScanGoesOn, "report_scan", Disk, Head, Changes, ["partition", "bytes"];
            NextFindings => OpenFindings, "next_findings", Disk, Head, Reads, ["partition"];
            MendFinding => Done, "mend_finding", Disk, Head, Changes, ["partition"];
            // The shared file system
            OpenMount => MountSession, "open_mount", Mounts, Head, Changes, ["path", "host"];
            CloseMount => Done, "close_mount", Mounts, Head, Changes, ["client"];
            NextRecalls => Recalls, "next_recalls", Mounts, Head, Reads, ["client"],
                pending |reply| reply.is_empty();
            LookUp => MountedNode, "look_up", Mounts, Head, Reads, ["parent", "name"],
                pending |reply| reply.is_pending();
            GetNode => MountedNode, "get_node", Mounts, Head, Reads, ["file"],
                pending |reply| reply.is_pending();
            ListNode => MountedNames, "list_node", Mounts, Head, Reads, ["directory"];
            MakeNode => MountedNode, "make_node", Mounts, Head, Changes, ["parent", "name"];
            ReadLink => LinkTarget, "read_link", Mounts, Head, Reads, ["file"];
            DescribeNode => FileInfo, "describe_node", Mounts, Head, Reads, ["file"];
            GetNodeAttributes => Attributes, "get_node_attributes", Mounts, Head, Reads, ["file"];
            SetNodeAttribute => Done, "set_node_attribute", Mounts, Head, Changes, ["file"];
            RemoveNode => Done, "remove_node", Mounts, Head, Changes, ["parent", "name"];
            MoveNode => Done, "move_node", Mounts, Head, Changes, ["name", "to_name"];
            LinkNode => MountedNode, "link_node", Mounts, Head, Changes, ["file", "parent", "name"];
            SetNode => MountedNode, "set_node", Mounts, Head, Changes, ["file", "mode"];
            OpenNode => OpenedNode, "open_node", Mounts, Head, Reads, ["file"];
            CloseNode => Done, "close_node", Mounts, Head, Reads, ["file"];
            AskGrant => GrantAnswer, "ask_grant", Mounts, Head, Reads, ["file"],
                pending |reply| reply.grant.is_none();
            CommitNode => MountedNode, "commit_node", Mounts, Head, Changes, ["file", "size"];
            DropCopies => Layout, "drop_copies", Mounts, Head, Changes, ["file"];
            ReturnGrant => Done, "return_grant", Mounts, Head, Reads, ["file"];
            SetLock => LockAnswer, "set_lock", Mounts, Head, Reads, ["file"],
                pending |reply| !reply.is_set && reply.verdict.is_none();
            CancelLock => Done, "cancel_lock", Mounts, Head, Reads, ["client"];
            TestLock => LockAnswer, "test_lock", Mounts, Head, Reads, ["file"];
            GetMounts => Mounts, "get_mounts", People, Head, Reads, [];
            EvictMount => Done, "evict_mount", People, Head, Changes, ["client"];
            BeginLive => LiveBase, "begin_live", Disk, Head, Reads, [];
            NextLiveOrders => LiveOrders, "next_live_orders", Disk, Head, Changes, ["partition"],
                pending |reply| reply.orders.is_empty();
            LiveFenced => Done, "live_fenced", Disk, Head, Changes, ["partition"];
            LiveSealed => Done, "live_sealed", Disk, Head, Changes, ["partition"];
            // Tape
            RegisterLibrary => Done, "register_library", Tape, Head, Changes, [];
            NextTapeSession => TapeOrders, "next_tape_session", Tape, Head, Changes, ["drive"],
                pending |reply| reply.is_empty();
            CartridgeRefused => Done, "cartridge_refused", Tape, Head, Changes, ["vid", "drive"];
            TapeProgress => Done, "tape_progress", Tape, Head, Changes, ["request"];
            FilesArchived => Done, "files_archived", Tape, Head, Changes, [];
            FileRecalled => Done, "file_recalled", Tape, Head, Changes, ["request"];
            RequestFailed => Done, "request_failed", Tape, Head, Changes, ["request"];
            EndTapeSession => Done, "end_tape_session", Tape, Head, Changes, [];
            AddVolumes => AddedVolumes, "add_volumes", People, Head, Changes, ["vids"];
            SetVolumeState => Done, "set_volume_state", People, Head, Changes, ["vid", "state"];
            RetryRequest => Done, "retry_request", People, Head, Changes, ["request"];
            AnswerOperatorRequest => Done, "answer_operator_request", People, Head, Changes, ["id", "answer", "message"];
            RemoveDrive => Done, "remove_drive", People, Head, Changes, ["drive"];
            EnableDrive => Done, "enable_drive", People, Head, Changes, ["drive"];
            DisableDrive => Done, "disable_drive", People, Head, Changes, ["drive"];
            SurveyVolumes => SurveyOrdered, "survey_volumes", People, Head, Changes, ["vids"];
            SetVolumePool => Done, "set_volume_pool", People, Head, Changes, ["vid", "pool"];
            GetMissingCopies => MissingCopies, "missing_copies", People, Head, Reads, [];
            SetDriveQuota => Done, "set_drive_quota", People, Head, Changes, ["group", "kind", "drives"];
            GetDriveQuotas => DriveQuotas, "drive_quotas", People, Head, Reads, [];
            RepackVolume => Done, "repack_volume", People, Head, Changes, ["vid", "reclaims"];
            StopRepack => Done, "stop_repack", People, Head, Changes, ["vid"];
            GetRepacks => Repacks, "get_repacks", People, Head, Reads, [];
            ReclaimVolume => Done, "reclaim_volume", People, Head, Changes, ["vid"];
            VerifyVolume => Done, "verify_volume", People, Head, Changes, ["vid"];
            GetDamagedCopies => DamagedCopies, "get_damaged_copies", People, Head, Reads, [];
            FilesVerified => Done, "files_verified", Tape, Head, Changes, [];
            FilesFound => Done, "files_found", Tape, Head, Changes, ["files"];
            VolumeSurveyed => Done, "volume_surveyed", Tape, Head, Changes, [];
            // Jobs
            Submit => Submitted, "submit", People, Head, Changes, ["name"];
            Jobs => JobList, "jobs", People, Head, Reads, ["ids"];
            AwaitJobs => AwaitedJobs, "await_jobs", People, Head, Reads, ["ids", "select"],
                pending |reply| reply.jobs.iter().any(|job| !job.state.is_over());
            CancelJob => Done, "cancel_job", People, Head, Changes, ["job"];
            CancelJobs => JobOutcomes, "cancel_jobs", People, Head, Changes, ["jobs"];
            HoldJobs => JobOutcomes, "hold_jobs", People, Head, Changes, ["jobs", "hold"];
            ReleaseJobs => JobOutcomes, "release_jobs", People, Head, Changes, ["jobs", "hold"];
            MoveJobs => JobOutcomes, "move_jobs", People, Head, Changes, ["jobs", "queue"];
            AlterJobs => JobOutcomes, "alter_jobs", People, Head, Changes, ["jobs"];
            RerunJobs => JobOutcomes, "rerun_jobs", People, Head, Changes, ["jobs"];
            SignalJobs => JobOutcomes, "signal_jobs", People, Head, Changes, ["jobs", "signal"];
            MessageJobs => JobOutcomes, "message_jobs", People, Head, Changes, ["jobs"];
            GetQueues => Queues, "get_queues", People, Head, Reads, [];
            AddQueue => Done, "add_queue", People, Head, Changes, ["queue"];
            SetQueue => Done, "set_queue", People, Head, Changes, ["queue"];
            RemoveQueue => Done, "remove_queue", People, Head, Changes, ["queue"];
            SwitchQueue => Done, "switch_queue", People, Head, Changes, ["queue", "enabled", "started", "default"];
            SetRunLimit => Done, "set_run_limit", People, Head, Changes, ["run_limit"];
            JobLog => JobText, "job_log", People, Head, Reads, ["job"];
            RegisterWorker => WorkerOrders, "register_worker", Cpu, Head, Changes, [];
            NextJob => JobOrders, "next_job", Cpu, Head, Changes, [],
                pending |reply| reply.is_empty();
            JobStarted => Done, "job_started", Cpu, Head, Changes, [];
            JobEnded => Done, "job_ended", Cpu, Head, Changes, [];
            GetJobToken => JobToken, "job_token", Cpu, Head, Changes, [];
            FollowJob => FollowedJob, "follow_job", People, Head, Reads, ["job"],
                pending |reply| !reply.is_all && reply.pieces.iter().all(Vec::is_empty);
            ReportOutput => OutputReported, "report_output", Cpu, Head, Changes, [];
            DrainWorker => Done, "drain_worker", People, Head, Changes, ["worker", "drain"];
            // Accounts
            SetProject => Done, "set_project", People, Head, Changes, ["path", "project"];
            GetAccounts => Accounts, "accounts", People, Head, Reads, ["pool", "project", "user"];
            SetQuota => Done, "set_quota", People, Head, Changes, ["kind", "name", "bytes", "files"];
            SetShare => Done, "set_share", People, Head, Changes, ["group", "user", "share"];
            GetShares => Shares, "get_shares", People, Head, Reads, [];
            GetQuotas => Quotas, "quotas", People, Head, Reads, [];
            // The facility
            GetEvents => Events, "get_events", People, Head, Reads, [],
                pending |reply| reply.events.is_empty();
            TakeOver => Done, "take_over", People, Head, Changes, ["host"];
            Refer => Done, "refer", People, Head, Changes, ["path"];
            GetReferrals => Referrals, "get_referrals", People, Head, Reads, ["path"];
            Invite => Invited, "invite", People, Door, Changes, ["roles"];
            JoinFacility => Membership, "join_facility", People, Door, Changes, ["name", "roles"];
            RenewCertificate => HostCertificate, "renew_certificate", Hosts, Door, Changes, [];
            GetAuthority => AuthorityCertificate, "get_authority", People, Door, Reads, [];
            AddInvitation => Done, "add_invitation", Rooms, Head, Changes, ["roles"];
            CheckAdmission => Done, "check_admission", Rooms, Head, Reads, [];
            AdmitHost => Admitted, "admit_host", Rooms, Head, Changes, [];
            ChangeCertificate => Done, "change_certificate", Rooms, Head, Changes, ["name"];
            RemoveHost => Done, "remove_host", People, Door, Changes, ["name"];
            GetSoleFiles => SoleFiles, "get_sole_files", People, Head, Reads, ["host"];
            GetHosts => Hosts, "get_hosts", People, Head, Reads, [];
            CreateToken => CreatedToken, "create_token", People, Door, Changes, ["user", "scopes"];
            GetKeys => KeyGenerations, "keys", People, Door, Reads, ["grace"];
            RotateKey => KeyGenerations, "rotate_key", People, Door, Changes, ["grace"];
            RevokeKey => KeyGenerations, "revoke_key", People, Door, Changes, ["generation"];
            GetCapKeys => HostCapKeys, "cap_keys", Disk, Head, Reads, ["generation"],
                pending |keys| keys.keys.is_empty();
            KeysChanged => Done, "keys_changed", Rooms, Head, Changes, [];
            LabelHost => Done, "label_host", People, Head, Changes, ["name", "labels"];
            HostHeartbeat => Done, "host_heartbeat", Hosts, Door, Reads, [];
            HostLeaves => Done, "host_leaves", Hosts, Head, Changes, ["host"];
            HostUnanswered => Done, "host_unanswered", Rooms, Head, Changes, ["host"];
            CompareCatalogue => CatalogueState, "compare_catalogue", Disk, Head, Changes, ["partition"];
            CompareObjects => Done, "compare_objects", Disk, Head, Changes, ["partition"];
            SettleCatalogue => Done, "settle_catalogue", People, Head, Changes, [];
            RecoverCatalogue => Done, "recover_catalogue", People, Head, Changes, [];
            GetStatus => Status, "status", People, Head, Reads, ["name", "files"];
            GetBill => Bill, "bill", People, Head, Reads, [];
        }
    };
}

/// What the table says of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallInfo {
    /// Its name in the URL.
    pub name: &'static str,
    /// Its type.
    pub request: &'static str,
    /// The type of its reply.
    pub reply: &'static str,
    /// Who may make it.
    pub audience: Audience,
    /// Its roles.
    pub effect: Effect,
    /// The fields that a record of the audit log names.
    pub named: &'static [&'static str],
    /// Whether its reply can be waited for.
    pub can_wait: bool,
}

macro_rules! implement {
    ($($call:ident => $reply:ty, $name:literal, $audience:ident, $by:ident, $effect:ident, [$($named:literal),*]
        $(, pending $pending:expr)?;)*) => {
        /// Every call, in the order of the table.
        pub const CALLS: &[CallInfo] = &[$(CallInfo {
            name: $name,
            request: stringify!($call),
            reply: stringify!($reply),
            audience: Audience::$audience,
            effect: Effect::$effect,
            named: &[$($named),*],
            can_wait: !concat!("" $(, stringify!($pending))?).is_empty(),
        }),*];
        $(
        impl Call for $call {
            const NAME: &'static str = $name;
            const AUDIENCE: Audience = Audience::$audience;
            const EFFECT: Effect = Effect::$effect;
            const NAMED: &'static [&'static str] = &[$($named),*];
            type Reply = $reply;
            $(fn is_pending(reply: &Self::Reply) -> bool {
                let pending: fn(&$reply) -> bool = $pending;
                pending(reply)
            })?
        }
    )*};
}
for_each_call!(implement);
